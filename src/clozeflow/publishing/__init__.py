"""A blessed model to where others find it: a Hub repository, a folder, the Vertex AI registry."""
