// From streams to messages, and what a verdict is.

package wire

import (
	"bytes"
	"fmt"
	"os"
	"slices"
)

// Violation is a rule that a message on the wire has broken.
type Violation struct {
	Frame   int    // in the capture
	From    string // "client" or "server"
	Message string // what it was
	Rule    string // what is wrong
}

func (v Violation) String() string {
	return fmt.Sprintf("frame %d, %s, %s: %s", v.Frame, v.From, v.Message, v.Rule)
}

// Report is what Judge found.
type Report struct {
	Violations []Violation

	// What there was to judge, so that a test can see that it was something.
	Connections, CRCOn, FPDUs              int
	Calls, Replies, Errors                 int
	Writes, Reads, LongCalls, LongReplies  int
	ReadChunks, WriteChunks, Invalidations int
	Terminates, Unanswered                 int

	// Misread counts connections that ended with a Terminate about the CRC of an FPDU
	// though all CRCs were right: siw misreads one that comes in two pieces. Ignored
	// counts calls on connections that had no reply at all: siw's accepting side can
	// lose its first wake-up. Neither is in the counts above.
	Misread, Ignored int

	// DirtyPads counts FPDUs of the client and of the server whose pad is not zero. It
	// is no violation by itself: Linux sends such pads (RFC 5044 says they should be zero).
	DirtyPads [2]int
}

// maxViolations keeps one mistake from filling the screen.
const maxViolations = 50

func (r *Report) add(frame, dir int, message, format string, args ...any) {
	if len(r.Violations) < maxViolations {
		r.Violations = append(r.Violations, Violation{frame, [2]string{"client", "server"}[dir], message, fmt.Sprintf(format, args...)})
	}
}

// Judge reads a capture and holds every connection that starts with MPA to the rules of
// RFC 5044, 5041, 5040 and 8166. Other connections are passed over.
func Judge(path string) (*Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return judge(b)
}

func judge(b []byte) (*Report, error) {
	streams, err := readStreams(b)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	for _, s := range streams {
		if s.iwarp() {
			r.Connections++
			judgeStream(r, s)
		}
	}
	return r, nil
}

func (s *stream) iwarp() bool {
	for _, c := range s.chunks {
		if c.dir == 0 {
			return len(c.data) >= 4 && string(c.data[:4]) == "MPA "
		}
	}
	return false
}

// crcTerminate begins a Terminate about the CRC of an FPDU: layer 2, type 0, code 2 (RFC 5044 section 8).
var crcTerminate = []byte{0x20, 0x02}

// side is what one direction of a connection has come to.
type side struct {
	buf     []byte
	startup *startup
	msn     [3]uint32 // the last one of each queue
	send    []byte    // an untagged message being put together
	open    bool      // and whether there is one
}

// conn is one connection under judgement.
type conn struct {
	r     *Report
	sides [2]side
	rpc   *rules
	crc   bool
	wrong [2]bool // a CRC of this side was
	cut   bool    // siw has ended it for a CRC that was right
	dead  bool    // the octets make no sense any more
}

func judgeStream(r *Report, s *stream) {
	c := &conn{r: r, rpc: newRules(r)}
	for _, chunk := range s.chunks {
		if c.dead {
			return
		}
		c.take(chunk)
	}
	c.end()
}

// end counts what was left without an answer.
func (c *conn) end() {
	switch {
	case c.cut:
	case c.rpc.replies == 0:
		c.r.Ignored += len(c.rpc.calls)
	default:
		c.r.Unanswered += len(c.rpc.calls)
	}
}

func (c *conn) take(ch chunk) {
	s := &c.sides[ch.dir]
	s.buf = append(s.buf, ch.data...)
	for !c.dead {
		n := 0
		if s.startup == nil {
			n = c.start(ch.frame, ch.dir)
		} else {
			var f fpdu
			if f, n = parseFPDU(s.buf); n > 0 {
				f.frame = ch.frame
				c.fpdu(f, ch.dir, s.buf[2+len(f.ulpdu):n-4])
			}
		}
		if n == 0 {
			return
		}
		s.buf = s.buf[n:]
	}
}

func (c *conn) start(frame, dir int) int {
	s := &c.sides[dir]
	st, n, err := parseStartup(s.buf, dir)
	if err != nil {
		c.fatal(frame, dir, "MPA", err.Error())
		return 0
	}
	if st == nil {
		return 0
	}
	s.startup = st
	if st.markers {
		c.fatal(frame, dir, "MPA", "markers are asked for, which this judge does not read")
	}
	if peer := c.sides[1-dir].startup; dir == 1 && peer == nil {
		c.fatal(frame, dir, "MPA", "a reply before the request")
	} else if dir == 1 {
		// One side's wish is enough (RFC 5044 section 7.1.1).
		if c.crc = st.crc || peer.crc; c.crc {
			c.r.CRCOn++
			if !st.crc {
				c.r.add(frame, dir, "MPA Reply", "CRC was asked for and is not granted")
			}
		}
		c.rpc.begin(peer, st)
	}
	return n
}

func (c *conn) fatal(frame, dir int, message, rule string) {
	c.r.add(frame, dir, message, "%s", rule)
	c.dead = true
}

func (c *conn) fpdu(f fpdu, dir int, pad []byte) {
	c.r.FPDUs++
	if c.sides[1].startup == nil {
		c.fatal(f.frame, dir, "FPDU", "sent before the MPA Reply")
		return
	}
	if c.crc && !f.crcOK {
		c.wrong[dir] = true
		c.r.add(f.frame, dir, "FPDU", "its CRC is wrong")
	}
	if slices.Max(append(pad[:len(pad):len(pad)], 0)) != 0 {
		c.r.DirtyPads[dir]++
	}
	s, err := parseDDP(f.ulpdu)
	if err != nil {
		c.fatal(f.frame, dir, "DDP segment", err.Error())
		return
	}
	if s.tagged {
		c.rpc.tagged(f.frame, dir, s)
		return
	}
	c.untagged(f.frame, dir, s)
}

// untagged puts messages together and checks their numbers (RFC 5041 section 5.2).
func (c *conn) untagged(frame, dir int, s ddp) {
	d := &c.sides[dir]
	if d.open {
		if s.msn != d.msn[s.queue] || int(s.mo) != len(d.send) {
			c.fatal(frame, dir, s.op.String(), fmt.Sprintf("message %d at %d follows message %d at %d", s.msn, s.mo, d.msn[s.queue], len(d.send)))
			return
		}
	} else {
		if s.msn != d.msn[s.queue]+1 || s.mo != 0 {
			c.fatal(frame, dir, s.op.String(), fmt.Sprintf("message %d at %d follows message %d", s.msn, s.mo, d.msn[s.queue]))
			return
		}
		d.msn[s.queue] = s.msn
	}
	d.send = append(d.send, s.data...)
	if d.open = !s.last; d.open {
		return
	}
	message := d.send
	d.send = nil
	switch s.op {
	case opTerminate:
		if c.cut = c.crc && !c.wrong[1-dir] && bytes.HasPrefix(message, crcTerminate); c.cut {
			c.r.Misread++
		} else {
			c.r.Terminates++
		}
	case opReadRequest:
		c.rpc.readRequest(frame, dir, message)
	default:
		c.rpc.send(frame, dir, s, message)
	}
}
