// Handshake messages after the handshake (RFC 8446 §4.6).

package ktls

import "fmt"

// Types of handshake messages.
const (
	newSessionTicket = 4
	keyUpdate        = 24
)

// messageHeader is the length of a message's header in bytes: one for the type, three for the
// length.
const messageHeader = 4

// maxMessage limits a message in bytes: a NewSessionTicket has two fields of 64 KiB at most, and
// some small ones.
const maxMessage = 1<<17 + 1<<10

// messages joins the handshake messages of records.
type messages struct {
	buf []byte // unread bytes
}

// partial reports whether a message has begun.
func (m *messages) partial() bool { return len(m.buf) > 0 }

// add appends the content of a record.
func (m *messages) add(record []byte) { m.buf = append(m.buf, record...) }

// next removes a complete message. A nil body means that the rest is in a later record. The body is
// valid until add.
func (m *messages) next() (messageType byte, body []byte, err error) {
	if len(m.buf) < messageHeader {
		return 0, nil, nil
	}
	n := int(m.buf[1])<<16 | int(m.buf[2])<<8 | int(m.buf[3])
	if n > maxMessage {
		return 0, nil, fmt.Errorf("a handshake message of %d bytes", n)
	}
	end := messageHeader + n
	if len(m.buf) < end {
		return 0, nil, nil
	}
	messageType, body = m.buf[0], m.buf[messageHeader:end:end]
	if m.buf = m.buf[end:]; len(m.buf) == 0 {
		m.buf = nil // release a long ticket's memory
	}
	return messageType, body, nil
}
