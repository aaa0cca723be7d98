// The limit: raw TCP throughput with its bytes read from or written to the page cache, and checked.
//
// The arrangement is the raw stream's: two processes on this machine, one plain Go TCP connection.
// The peer has a file in memory. For a READ it reads each piece from the page cache with pread,
// computes its CRC32C and sends both; we receive the piece into its final place and compare the
// CRC. For a WRITE we compute and send, and the peer compares and writes the piece to the page
// cache with pwrite. There are no requests, headers or further copies. A protocol with the same
// work can approach the limit. It can exceed the limit only with two connections or better system
// calls. The same is measured without CRCs, and for READ with sendfile, where TCP makes the copy
// from the page cache.

package bench

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"time"
)

// The kinds of connection to the peer other than raw TCP's. For the first three the peer sends
// until we hang up. To the others it replies with the byte count, as in raw TCP.
const (
	limitRead     = 'R' // pread
	limitReadCRC  = 'C' // pread and a CRC after each piece
	limitSendfile = 'F'
	limitWrite    = 'W' // pwrite
	limitWriteCRC = 'V' // pwrite of pieces, each followed by a CRC
)

const (
	limitFile  = 128 << 20 // bytes: more than the CPU caches hold
	limitPiece = 256 << 10 // bytes per system call and per CRC: fits into the second-level cache
	limitRing  = 8 << 20   // bytes of our memory, like eight 1 MiB calls in flight
	crcSize    = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errLimitCRC = errors.New("raw TCP: a piece came with another CRC than it has")

// A limitReport has one connection's throughput from one process's page cache to the other's
// memory, or back, in MiB/s. Unmeasured figures are 0.
type limitReport struct {
	Read     float64 `json:"read_mib_s,omitempty"`      // pread
	ReadCRC  float64 `json:"read_crc_mib_s,omitempty"`  // pread, with CRC at both ends
	Sendfile float64 `json:"sendfile_mib_s,omitempty"`  // sendfile
	Write    float64 `json:"write_mib_s,omitempty"`     // pwrite
	WriteCRC float64 `json:"write_crc_mib_s,omitempty"` // pwrite, with CRC at both ends
}

// mean returns the average of two measurements.
func (l limitReport) mean(o limitReport) limitReport {
	return limitReport{(l.Read + o.Read) / 2, (l.ReadCRC + o.ReadCRC) / 2, (l.Sendfile + o.Sendfile) / 2,
		(l.Write + o.Write) / 2, (l.WriteCRC + o.WriteCRC) / 2}
}

// A namedRate is a row of a table, in MiB/s.
type namedRate struct {
	name string
	rate float64
}

// named returns the measured figures with their titles.
func (l limitReport) named() (rows []namedRate) {
	for _, r := range []namedRate{{"limit: pread, CRC at both ends", l.ReadCRC}, {"limit: pread", l.Read}, {"limit: sendfile", l.Sendfile},
		{"limit: CRC at both ends, pwrite", l.WriteCRC}, {"limit: pwrite", l.Write}} {
		if r.rate > 0 {
			rows = append(rows, r)
		}
	}
	return rows
}

// forTest returns the limit for a test, or 0 without a limit. crc is the mode in use: "" over TCP,
// "auto" for an unknown mode.
func (l limitReport) forTest(test, crc string) float64 {
	checked := crc == "on" || crc == "strict"
	switch {
	case crc == "auto":
		return 0
	case test == "read" && checked:
		return l.ReadCRC
	case test == "read":
		return max(l.Read, l.Sendfile)
	case test == "write" && checked:
		return l.WriteCRC
	case test == "write":
		return l.Write
	}
	return 0
}

// measureLimits measures the limits for reads and writes at the peer, each figure for d.
func measureLimits(addr string, d time.Duration, reads, writes bool) (l limitReport, err error) {
	for _, m := range []struct {
		wanted bool
		kind   byte
		rate   func(string, byte, time.Duration) (float64, error)
		figure *float64
	}{
		{reads, limitRead, limitReadRate, &l.Read},
		{reads, limitReadCRC, limitReadRate, &l.ReadCRC},
		{reads, limitSendfile, limitReadRate, &l.Sendfile},
		{writes, limitWrite, limitWriteRate, &l.Write},
		{writes, limitWriteCRC, limitWriteRate, &l.WriteCRC},
	} {
		if !m.wanted {
			continue
		}
		if *m.figure, err = m.rate(addr, m.kind, d); err != nil {
			return l, err
		}
	}
	return l, nil
}

// limitReadRate receives pieces into a memory ring for d, at least one piece, and hangs up. The
// clock starts with the first piece, because the peer makes its file before the first piece.
func limitReadRate(addr string, kind byte, d time.Duration) (float64, error) {
	conn, err := rawDial(addr, kind)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	size := limitPiece
	if kind == limitReadCRC {
		size += crcSize
	}
	ring := make([]byte, limitRing/limitPiece*size)
	piece := func(i int) error {
		p := ring[i*size%len(ring):][:size]
		if _, err := io.ReadFull(conn, p); err != nil || kind != limitReadCRC {
			return err
		}
		if binary.BigEndian.Uint32(p[limitPiece:]) != crc32.Checksum(p[:limitPiece], castagnoli) {
			return errLimitCRC
		}
		return nil
	}
	if err := piece(0); err != nil {
		return 0, err
	}
	start, n := time.Now(), 0
	for n == 0 || time.Since(start) < d {
		n++
		if err := piece(n); err != nil {
			return 0, err
		}
	}
	return float64(n) * limitPiece / (1 << 20) / time.Since(start).Seconds(), nil
}

// limitWriteRate sends pieces from a memory ring for d, at least one piece. It returns when the
// peer has confirmed that all pieces are written to the peer's file.
func limitWriteRate(addr string, kind byte, d time.Duration) (float64, error) {
	conn, err := rawDial(addr, kind)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // the peer has made its file
		return 0, err
	}
	ring, sum := make([]byte, limitRing), [crcSize]byte{}
	for i := range ring {
		ring[i] = byte(i % 251)
	}
	parts := make(net.Buffers, 2)
	start, n := time.Now(), uint64(0)
	for i := 0; n == 0 || time.Since(start) < d; i++ {
		p := ring[i*limitPiece%limitRing:][:limitPiece]
		send := append(parts[:0], p)
		if kind == limitWriteCRC {
			binary.BigEndian.PutUint32(sum[:], crc32.Checksum(p, castagnoli))
			send = append(send, sum[:])
		}
		if _, err := send.WriteTo(conn); err != nil {
			return 0, err
		}
		n += limitPiece
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return 0, err
	}
	var got uint64
	if err := binary.Read(conn, binary.BigEndian, &got); err != nil {
		return 0, err
	}
	if got != n {
		return 0, errors.New("raw TCP lost data")
	}
	return float64(n) / (1 << 20) / time.Since(start).Seconds(), nil
}
