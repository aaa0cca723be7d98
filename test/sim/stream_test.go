// One direction as seen at one place: start-up frame, FPDUs, segments, messages.

package sim

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// A segment is one DDP segment with its place in the message.
type segment struct {
	ddp.Header
	op   rdmap.Opcode
	data []byte
}

// A stream parses the bytes of one direction.
type stream struct {
	from    int // the side that sends
	buf     []byte
	frame   *mpa.Frame // the sender's
	other   *stream    // the other direction, at the same place
	markers mpa.MarkerReceiver
	msn, mo [3]uint32 // of the last message of each untagged queue
	open    [3]bool
	send    []byte // of the Send that is on its way
}

// feed appends b to the stream, and parses each FPDU now complete. It calls each for the segment.
func (s *stream) feed(b []byte, each func(*segment) error) error {
	s.buf = append(s.buf, b...)
	for {
		ulpdu, n, err := s.next()
		if err != nil || n == 0 {
			return err
		}
		s.buf = s.buf[n:]
		if ulpdu == nil {
			continue
		}
		seg := &segment{}
		if seg.Header, seg.data, err = ddp.Parse(ulpdu); err == nil {
			seg.op, err = rdmap.ParseControl(seg.Ctrl)
		}
		if err == nil {
			err = seg.op.Check(seg.Tagged, seg.QN)
		}
		if err == nil && !seg.Tagged {
			err = s.sequence(seg)
		}
		if err == nil {
			err = each(seg)
		}
		if err != nil {
			return err
		}
	}
}

// next splits off the start-up frame, then FPDUs.
func (s *stream) next() (ulpdu []byte, n int, err error) {
	if s.frame == nil {
		f, n, err := mpa.ParseFrame(s.buf, s.from == 1)
		if n > 0 {
			s.frame = &f
		}
		return nil, n, err
	}
	if len(s.buf) == 0 {
		return nil, 0, nil
	}
	if s.other.frame == nil {
		return nil, 0, fmt.Errorf("bytes before the start-up frame of the other side")
	}
	crc := s.frame.CRC || s.other.frame.CRC
	if s.other.frame.Markers {
		return s.markers.Parse(s.buf, crc)
	}
	return mpa.ParseFPDU(s.buf, crc)
}

// sequence compares MSN and MO in an untagged segment with the expected ones.
func (s *stream) sequence(seg *segment) error {
	q := seg.QN
	if !s.open[q] {
		s.open[q], s.mo[q] = true, 0
		s.msn[q]++
	}
	if seg.MSN != s.msn[q] || seg.MO != s.mo[q] {
		return fmt.Errorf("queue %d: MSN %d MO %d where %d and %d are due", q, seg.MSN, seg.MO, s.msn[q], s.mo[q])
	}
	s.mo[q] += uint32(len(seg.data))
	s.open[q] = !seg.Last
	return nil
}

// message collects the segments of a Send. With the last segment it returns the message, and whole
// is true.
func (s *stream) message(seg *segment) (msg []byte, whole bool) {
	s.send = append(s.send, seg.data...)
	if !seg.Last {
		return nil, false
	}
	msg, s.send = s.send, nil
	return msg, true
}
