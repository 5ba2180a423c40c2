"""The node ship_parcel of the flow order_fulfilment, in Python. python-nodes.ts starts it beside the example."""

import sys
from typing import Dict

from flowdsl import PERMANENT, NodeError, NodeInput, NodeOutput, node


class Carrier:
    """An external service with idempotency keys: a second call with the same key has no second effect."""

    def __init__(self) -> None:
        self._calls: Dict[str, int] = {}

    def ship(self, key: str) -> str:
        calls = self._calls[key] = self._calls.get(key, 0) + 1
        print(f"provider      ship {key}: {'done' if calls == 1 else 'already done, no second effect'} (call {calls})", file=sys.stderr, flush=True)
        return f"ship-{key}"


carrier = Carrier()


@node("ship_parcel", summary="Hands the parcel to a carrier", inputs=["paid"])
async def ship_parcel(input: NodeInput) -> NodeOutput:
    order = await input.packet("paid")
    if order.get_string("address.country") == "xx":
        raise NodeError(PERMANENT, "no carrier delivers to this country")
    parcel = carrier.ship(input.context.idempotency_key or input.context.packet_id)
    return NodeOutput().send("out", {"orderId": order.get("orderId"), "parcel": parcel})


nodes = [ship_parcel]
