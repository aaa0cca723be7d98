// The capture file: byte streams as IPv4 packets.

package tap

import (
	"bufio"
	"encoding/binary"
	"io"
	"sync"
	"time"
)

// maxPacket is the payload of the largest IPv4 packet.
const maxPacket = 65_495

// Capture writes one pcap file. A nil Capture writes nothing.
type Capture struct {
	mu  sync.Mutex
	w   *bufio.Writer
	err error
	id  uint16

	flows uint32 // connections so far
}

// NewCapture starts a capture on w.
func NewCapture(w io.Writer) *Capture {
	c := &Capture{w: bufio.NewWriterSize(w, 1<<20)}
	var head [24]byte
	binary.LittleEndian.PutUint32(head[0:], 0xa1b2c3d4) // microseconds
	binary.LittleEndian.PutUint16(head[4:], 2)
	binary.LittleEndian.PutUint16(head[6:], 4)
	binary.LittleEndian.PutUint32(head[16:], 1<<16)
	binary.LittleEndian.PutUint32(head[20:], 101) // packets start with their IP header
	_, c.err = c.w.Write(head[:])
	return c
}

// Close flushes the file and returns the first error.
func (c *Capture) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = c.w.Flush()
	}
	return c.err
}

// flow is one TCP connection in the capture.
type flow struct {
	c    *Capture
	addr [2][4]byte // the destination address of each direction
	port [2]int     // the destination port of each direction
	seq  [2]uint32  // the next byte of each direction
	done [2]bool

	units [2]framer
}

const (
	flagFIN = 0x01
	flagSYN = 0x02
	flagPSH = 0x08
	flagACK = 0x10
)

// flow opens a connection in the capture with a three-way handshake. Each client has an address of
// its own there. Otherwise tshark treats a second connection between the same ports as a repetition
// of the first, and does not parse it.
func (c *Capture) flow(client, server int) *flow {
	f := &flow{c: c, port: [2]int{ToServer: server, ToClient: client}, seq: [2]uint32{1000, 2000}}
	f.addr[ToServer] = [4]byte{127, 0, 0, 1}
	if c == nil {
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flows++
	binary.BigEndian.PutUint32(f.addr[ToClient][:], 127<<24|1<<16|c.flows&0xffff)
	f.packet(ToServer, flagSYN, nil)
	f.packet(ToClient, flagSYN|flagACK, nil)
	f.packet(ToServer, flagACK, nil)
	return f
}

// data writes the complete units. Each MPA frame and each FPDU gets a separate packet in the
// capture. TCP does not guarantee such packets, but tshark fails to parse packets with several
// FPDUs and the end of another FPDU.
func (f *flow) data(d Direction, b []byte) {
	if f.c == nil {
		return
	}
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.units[d].add(b)
	for {
		u := f.units[d].next()
		if u == nil {
			return
		}
		f.unit(d, u)
	}
}

// unit writes one unit.
func (f *flow) unit(d Direction, b []byte) {
	for len(b) > 0 {
		part := b[:min(len(b), maxPacket)]
		f.packet(d, flagPSH|flagACK, part)
		b = b[len(part):]
	}
}

func (f *flow) fin(d Direction) {
	if f.c == nil {
		return
	}
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if !f.done[d] {
		f.done[d] = true
		f.unit(d, f.units[d].rest())
		f.packet(d, flagFIN|flagACK, nil)
	}
}

// packet writes one packet; the caller holds the lock. Checksums stay zero, which readers treat as
// offloaded.
func (f *flow) packet(d Direction, flags byte, b []byte) {
	c := f.c
	if c.err != nil {
		return
	}
	var h [16 + 20 + 20]byte
	now := time.Now()
	size := uint32(40 + len(b))
	binary.LittleEndian.PutUint32(h[0:], uint32(now.Unix()))
	binary.LittleEndian.PutUint32(h[4:], uint32(now.Nanosecond()/1000))
	binary.LittleEndian.PutUint32(h[8:], size)
	binary.LittleEndian.PutUint32(h[12:], size)
	c.id++
	ip := h[16:36]
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], uint16(size))
	binary.BigEndian.PutUint16(ip[4:], c.id)
	copy(ip[12:], f.addr[1-d][:])
	copy(ip[16:], f.addr[d][:])
	tcp := h[36:]
	binary.BigEndian.PutUint16(tcp[0:], uint16(f.port[1-d]))
	binary.BigEndian.PutUint16(tcp[2:], uint16(f.port[d]))
	binary.BigEndian.PutUint32(tcp[4:], f.seq[d])
	if flags&flagACK != 0 {
		binary.BigEndian.PutUint32(tcp[8:], f.seq[1-d])
	}
	tcp[12], tcp[13] = 5<<4, flags
	binary.BigEndian.PutUint16(tcp[14:], 65535)
	f.seq[d] += uint32(len(b))
	if flags&(flagSYN|flagFIN) != 0 {
		f.seq[d]++
	}
	if _, c.err = c.w.Write(h[:]); c.err == nil {
		_, c.err = c.w.Write(b)
	}
}
