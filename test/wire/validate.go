// Extracts messages from streams and validates them.

package wire

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
)

// Violation is a rule broken by a message on the wire.
type Violation struct {
	Frame   int    // in the capture
	From    string // "client" or "server"
	Message string // the message
	Rule    string // the broken rule
}

func (v Violation) String() string {
	return fmt.Sprintf("frame %d, %s, %s: %s", v.Frame, v.From, v.Message, v.Rule)
}

// Report is the result of Validate.
type Report struct {
	Violations []Violation

	// Counts of the checked items, so that a test can verify that items were checked.
	Connections, CRCOn, FPDUs              int
	Calls, Replies, Errors                 int
	Writes, Reads, LongCalls, LongReplies  int
	ReadChunks, WriteChunks, Invalidations int
	Terminates                             []string // the sender and reason of each

	// Permitted effects of broken connections: calls without a reply; directions that end inside a
	// message; and connections, not counted elsewhere, without a Reply to their MPA Request.
	Unanswered, Torn, Refused int

	// Misread counts connections that ended with a Terminate about an FPDU's CRC although all CRCs
	// were right: siw misreads an FPDU that arrives in two pieces. Ignored counts calls on
	// connections without any reply: siw's accepting side can lose its first wake-up. Neither is in
	// the counts above.
	Misread, Ignored int

	// DirtyPads counts FPDUs of the client and of the server with nonzero pads. That alone is no
	// violation: Linux sends such pads (RFC 5044 says they should be zero).
	DirtyPads [2]int

	tsharkFPDUs int // FPDUs in tshark's part
}

var sideNames = [2]string{"client", "server"}

// maxViolations limits the output of a single mistake.
const maxViolations = 50

func (r *Report) add(frame, dir int, message, format string, args ...any) {
	if len(r.Violations) < maxViolations {
		r.Violations = append(r.Violations, Violation{frame, sideNames[dir], message, fmt.Sprintf(format, args...)})
	}
}

// Validate reads a capture and checks every connection that starts with MPA against the rules of
// RFC 5044, 5041, 5040 and 8166. Other connections are ignored. It needs little memory, whatever
// the size of the capture.
func Validate(path string) (*Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return validate(f)
}

func validate(r io.Reader) (*Report, error) {
	var all []*conn
	report := new(Report)
	a := newAssembler(func(s *stream) {
		c := newConn(report)
		all = append(all, c)
		s.take = c.take
	})
	if err := readPcap(r, a.packet); err != nil {
		return nil, err
	}
	for _, c := range all {
		c.end()
	}
	return report, nil
}

// crcTerminate is the start of siw's Terminate about an FPDU's CRC: layer 2, type 0, code 2 (RFC
// 5044 section 8). siw reverses the bit fields within the byte.
var crcTerminate = []byte{0x02, 0x02}

// side is the state of one direction of a connection.
type side struct {
	buf     []byte
	startup *startup
	msn     [3]uint32 // the last MSN in each queue
	send    []byte    // an incomplete untagged message
	open    bool      // send is in use
}

// conn is one connection being validated.
type conn struct {
	r     *Report
	sides [2]side
	rpc   *rules
	known bool // its first bytes have been seen
	plain bool // the first bytes were not MPA's
	crc   bool
	wrong [2]bool // a CRC from this side was wrong
	cut   bool    // siw has ended the connection for a right CRC
	dead  bool    // the remaining bytes cannot be parsed
}

func newConn(r *Report) *conn { return &conn{r: r, rpc: newRules(r)} }

func (c *conn) take(ch chunk) {
	if !c.known {
		c.known = true
		c.plain = !bytes.HasPrefix(ch.data, []byte("MPA "))
	}
	if c.plain || c.dead {
		return
	}
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

// end counts incomplete calls and messages.
func (c *conn) end() {
	if !c.known || c.plain || c.dead || c.cut {
		return
	}
	if c.sides[1].startup == nil {
		c.r.Refused++
	}
	if n := len(c.rpc.calls); c.rpc.replies == 0 {
		c.r.Ignored += n
	} else {
		c.r.Unanswered += n
	}
	for _, s := range c.sides {
		if len(s.buf) > 0 || s.open {
			c.r.Torn++
		}
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
		c.fatal(frame, dir, "MPA", "markers are asked for, which this reader does not know")
	}
	if peer := c.sides[1-dir].startup; dir == 1 && peer == nil {
		c.fatal(frame, dir, "MPA", "a reply before the request")
	} else if dir == 1 {
		c.r.Connections++
		// A request by one side suffices (RFC 5044 section 7.1.1).
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
	if f.frame <= tsharkFrames {
		c.r.tsharkFPDUs++
	}
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

// terminate formats a Terminate by the bytes of its control field (RFC 5040 section 4.8).
func terminate(frame, dir int, message []byte) string {
	return fmt.Sprintf("frame %d, %s: % x", frame, sideNames[dir], message[:min(len(message), 4)])
}

// untagged assembles messages and checks their numbers (RFC 5041 section 5.2).
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
			return
		}
		c.r.Terminates = append(c.r.Terminates, terminate(frame, dir, message))
	case opReadRequest:
		c.rpc.readRequest(frame, dir, message)
	default:
		c.rpc.send(frame, dir, s, message)
	}
}
