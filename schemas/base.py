"""The base of everything that crosses the wire."""

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """A frozen message part. Unknown fields are refused, so that a typo is an error and not a silent loss."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")
