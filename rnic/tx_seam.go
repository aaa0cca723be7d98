// Where TCP will cut a batch into segments, and FPDUs that are not to be cut there.

package rnic

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// errSeam says that the next FPDU is left for a batch of its own.
var errSeam = errors.New("rnic: the segment ends in the trailer")

// seam says whether the trailer of an FPDU with l octets of ULPDU, were it next
// in the batch, would be cut: TCP begins a segment with each batch, which goes
// as a record, and one every mss octets from there. Linux siw takes the CRC of
// such an FPDU for a bad one and ends the connection. In the next batch the FPDU
// comes first and fits in one segment.
func (t *transmitter) seam(l int) bool {
	if !t.b.record || t.b.empty() {
		return false
	}
	from := t.b.left + mpa.LengthLen + l
	last := from + mpa.Pad(l) + mpa.CRCLen - 1
	return last/t.mss > from/t.mss
}
