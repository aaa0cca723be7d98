// The peer's end of the limit: a file in memory, sent and received.

package bench

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// serveLimit serves one connection for a limit, with a file of its own.
func serveLimit(conn net.Conn, kind byte) error {
	f, err := memoryFile()
	if err != nil {
		return err
	}
	defer f.Close()
	switch kind {
	case limitSendfile:
		return sendFile(conn, f)
	case limitRead, limitReadCRC:
		return sendPieces(conn, f, kind == limitReadCRC)
	}
	if _, err := conn.Write([]byte{kind}); err != nil {
		return err
	}
	n, err := receivePieces(conn, f, kind == limitWriteCRC)
	if err != nil {
		return err
	}
	return binary.Write(conn, binary.BigEndian, n)
}

// memoryFile returns a file existing only in the page cache, with all pages present.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("nfsrdma-bench", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "nfsrdma-bench")
	p := make([]byte, limitPiece)
	for i := range p {
		p[i] = byte(i % 251)
	}
	for off := int64(0); off < limitFile; off += limitPiece {
		if _, err := f.WriteAt(p, off); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// sendFile sends the file repeatedly until the other end hangs up.
func sendFile(conn net.Conn, f *os.File) error {
	to := conn.(*net.TCPConn)
	for {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if _, err := to.ReadFrom(f); err != nil {
			return err
		}
	}
}

// sendPieces sends the file piece by piece, repeatedly, until the other end hangs up.
func sendPieces(conn net.Conn, f *os.File, crc bool) error {
	p, end := make([]byte, limitPiece+crcSize), limitPiece
	if crc {
		end += crcSize
	}
	for off := int64(0); ; off = (off + limitPiece) % limitFile {
		if _, err := f.ReadAt(p[:limitPiece], off); err != nil {
			return err
		}
		if crc {
			binary.BigEndian.PutUint32(p[limitPiece:], crc32.Checksum(p[:limitPiece], castagnoli))
		}
		if _, err := conn.Write(p[:end]); err != nil {
			return err
		}
	}
}

// receivePieces writes the received pieces to the file until the other end stops sending. n is
// their size in bytes, without CRCs.
func receivePieces(conn net.Conn, f *os.File, crc bool) (n uint64, err error) {
	p, end := make([]byte, limitPiece+crcSize), limitPiece
	if crc {
		end += crcSize
	}
	for off := int64(0); ; off = (off + limitPiece) % limitFile {
		if _, err := io.ReadFull(conn, p[:end]); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
		if crc && binary.BigEndian.Uint32(p[limitPiece:]) != crc32.Checksum(p[:limitPiece], castagnoli) {
			return n, errLimitCRC
		}
		if _, err := f.WriteAt(p[:limitPiece], off); err != nil {
			return n, err
		}
		n += limitPiece
	}
}
