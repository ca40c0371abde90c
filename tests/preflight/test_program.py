# ruff: noqa: E501
"""A compiled program's text, in XLA's notation, as short as it can be."""

import pytest

from clozeflow.preflight.program import Group, Loop, group_of, summarize

TEXT = """HloModule step, is_scheduled=true

%inner (x: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  ROOT %y = f32[] add(%x, %x), backend_config={"window_config":{"estimated_cycles":"7"}}
}

%row_condition (p: (s32[])) -> pred[] {
  %p = (s32[]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %limit = s32[]{:T(128)} constant(256)
  ROOT %less = pred[] compare(%i, %limit), direction=LT
}

%row_body (p.1: (s32[])) -> (s32[]) {
  %p.1 = (s32[]) parameter(0)
  %one = f32[8]{0} fusion(%p.1), kind=kLoop, calls=%inner, metadata={op_name="AdamW/Unique"}, backend_config={"estimated_cycles":"5"}
  ROOT %t = (s32[]) tuple(%one)
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0:T(128)} parameter(0)
  %qk = bf16[8]{0} fusion(%a), kind=kOutput, calls=%inner, metadata={op_name="StatefulPartitionedCall/layer_._3/attention/self/MatMul"}, backend_config={"estimated_cycles":"100"}
  %back = bf16[8]{0} fusion(%a), kind=kOutput, calls=%inner, metadata={op_name="gradient_tape/layer_._3/output/dense/MatMul;x"}, backend_config={"estimated_cycles":"200"}
  %again = bf16[8]{0} call(%a), to_apply=%inner
  %sums = (f32[4,8]{1,0:T(8,128)S(1)}, bf16[3]{0}) all-reduce(%a, %a), replica_groups={{0,1}}, to_apply=%inner
  %loop = (s32[]) while(%t), condition=%row_condition, body=%row_body, metadata={op_name="AdamW/Unique"}
  %known = (s32[]) while(%t), condition=%row_condition, body=%row_body, backend_config={"known_trip_count":{"n":"4"}}
  %wait = token[] outfeed(%a)
  ROOT %update = f32[8]{0} fusion(%a), kind=kLoop, calls=%inner, metadata={op_name="optimizer/ResourceApplyAdam_3"}, backend_config={"estimated_cycles":"30"}
}
"""


def test_cycles_go_to_what_the_operation_is_for():
    cycles = summarize(TEXT).cycles
    assert cycles[Group.ATTENTION] == 100
    assert cycles[Group.FEED_FORWARD] == 200
    assert cycles[Group.OPTIMIZER] == 30
    assert cycles[Group.OTHER] == 7 + 5 * 256 + 5 * 4  # the call, and what loops do
    assert summarize(TEXT).total_cycles == 100 + 200 + 30 + 7 + 5 * 260


def test_loops_are_named_with_their_turns():
    assert summarize(TEXT).loops == (
        Loop(name="AdamW/Unique", num_turns=256, cycles=5 * 256),
        Loop(name="known", num_turns=4, cycles=5 * 4),
    )


def test_all_reduces_and_waits_for_the_host_are_counted():
    summary = summarize(TEXT)
    assert summary.all_reduce_bytes == 4 * 8 * 4 + 3 * 2
    assert summary.host_transfers == 1


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("StatefulPartitionedCall/layer_._0/attention/output/dense/MatMul", Group.ATTENTION),
        ("StatefulPartitionedCall/layer_._0/output/LayerNorm/mul", Group.FEED_FORWARD),
        ("StatefulPartitionedCall/last_layer/intermediate/Gelu", Group.FEED_FORWARD),
        ("StatefulPartitionedCall/gradient_tape/lm_head/MatMul", Group.HEAD),
        ("StatefulPartitionedCall/loss/Max", Group.HEAD),
        ("StatefulPartitionedCall/embeddings/Gather", Group.EMBEDDINGS),
        ("optimizer/global_norm/L2Loss", Group.OPTIMIZER),
        ("XlaAllReduce_1", Group.ALL_REDUCE),
        ("stack", Group.OTHER),
    ],
)
def test_groups(name, group):
    assert group_of(name) is group
