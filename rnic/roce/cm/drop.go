// Why datagrams are dropped: a reason for each check, and the counters.

package cm

import "strconv"

// A Drop is why a datagram was dropped. The sender is not told, but by the refusals that Counters
// has.
type Drop uint8

// The reasons.
const (
	Accepted        Drop = iota
	DropKeys             // the packet: opcode, queue pair, P_Key, Q_Key of the GSI
	DropHeader           // length or base version
	DropClass            // another class, method or class version than those of communication management
	DropAttribute        // no message that is known
	DropMalformed        // a message that contradicts itself
	DropUnknown          // no connection has the identifier
	DropAddress          // from another address than the connection's peer
	DropTransaction      // of another exchange
	DropQPN              // DREQ for another queue pair than the connection's
	DropState            // the connection is not in a state for it
	DropDuplicate        // nothing new, and no answer due
	DropRefused          // a REQ or SIDR_REQ that cannot be served

	drops = int(DropRefused) + 1
)

var dropNames = [drops]string{"accepted", "keys", "header", "class", "attribute", "malformed", "no such connection", "address", "transaction",
	"queue pair", "state", "duplicate", "refused"}

func (d Drop) String() string {
	if int(d) < drops {
		return dropNames[d]
	}
	return "Drop(" + strconv.Itoa(int(d)) + ")"
}

// Counters is what became of the datagrams of a CM, and of its connections.
type Counters struct {
	Datagrams [drops]uint64 // received, by Drop; of Accepted those that were of use

	Sent     uint64 // datagrams, repeated ones included
	Repeated uint64 // of these
	Refused  uint64 // of these: answers without state, to what was dropped
	Withheld uint64 // datagrams that were not sent, since the address is not proven or the limit is reached

	Evicted uint64 // half-open connections that made room
	Expired uint64 // connections that ended with ErrTimeout

	Established uint64 // connections that were made
}

// Dropped is how many datagrams were dropped for reason d.
func (c Counters) Dropped(d Drop) uint64 { return c.Datagrams[d] }
