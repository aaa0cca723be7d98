// Connections with malformed data: noise, truncated messages, and wrong lengths.

package main

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// malformedWait limits the life of a malformed connection.
const malformedWait = 2 * time.Second

// malformed makes one malformed connection. It only checks that the server accepts the next
// connection.
func (w *worker) malformed(ctx context.Context) error {
	addr := w.server.tcp
	if w.transport == "rdma" {
		addr = w.server.rdma
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	w.done.malformed.Add(1)
	c.SetDeadline(time.Now().Add(w.randomDuration(malformedWait)))
	c.Write(w.garbage()) // the server may end the connection at any byte
	switch w.rand.IntN(3) {
	case 0: // closed at once, with a reset if there is unread data
		c.(*net.TCPConn).SetLinger(0)
	case 1:
		c.(*net.TCPConn).CloseWrite()
		fallthrough
	default: // until the server or this end closes the connection
		io.Copy(io.Discard, c)
	}
	return nil
}

// garbage returns the bytes for a malformed connection.
func (w *worker) garbage() []byte {
	if w.transport == "rdma" {
		// An MPA request (RFC 5044 §7.1.1): key, flags, revision, length of the private data.
		start := append([]byte("MPA ID Req Frame"), 0x40, 1, 0, 0)
		switch w.rand.IntN(4) {
		case 0:
			return start[:w.rand.IntN(len(start))]
		case 1:
			start[w.rand.IntN(len(start))] ^= byte(1 + w.rand.IntN(255))
			return start
		case 2: // a start-up, then noise instead of FPDUs
			return append(start, w.noise()...)
		}
		return w.noise()
	}
	switch noise := w.noise(); w.rand.IntN(4) {
	case 0: // a record longer than permitted
		return binary.BigEndian.AppendUint32(nil, 1<<31|w.rand.Uint32())
	case 1: // half a record
		return append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(2*len(noise))), noise...)
	case 2: // a complete record that is no call, or a call for an unknown program
		return append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(noise))), noise...)
	default:
		// a call with arguments of noise: XID, CALL, version 2, NFS version 3, procedure, no
		// credential
		call := make([]byte, 0, 40+len(noise))
		for _, v := range []uint32{w.rand.Uint32(), 0, 2, 100003, 3, w.rand.Uint32N(24), 0, 0, 0, 0} {
			call = binary.BigEndian.AppendUint32(call, v)
		}
		call = append(call, noise...)
		return append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(call))), call...)
	}
}

// noise returns up to 4000 random bytes.
func (w *worker) noise() []byte {
	b := make([]byte, w.rand.IntN(4000))
	for i := range b {
		b[i] = byte(w.rand.Uint32())
	}
	return b
}
