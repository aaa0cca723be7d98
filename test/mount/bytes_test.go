// One file, read and written at random in every way, compared with memory byte by byte.

package mount

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// fileMost is the size up to which the file grows.
const fileMost = 4 << 20

// A byteFile is the file with its expected content.
type byteFile struct {
	path string
	how  string // buffered, mmap, direct or sync
	f    *os.File
	want []byte
	buf  []byte // aligned to a page, as direct I/O has it
	rnd  *rand.Rand
}

// bytesWorker does COUNT operations on a file: SEED COUNT HOW FILE.
func bytesWorker(args []string) error {
	seed, _ := strconv.ParseUint(args[0], 10, 64)
	count, _ := strconv.Atoi(args[1])
	b := &byteFile{path: args[3], how: args[2], rnd: rand.New(rand.NewPCG(seed, 2))}
	var err error
	if b.buf, err = unix.Mmap(-1, 0, fileMost, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
		return err
	}
	if err := b.reopen(); err != nil {
		return err
	}
	for i := range count {
		if err := b.step(); err != nil {
			return fmt.Errorf("operation %d of seed %d, %s: %w", i, seed, b.how, err)
		}
	}
	if err := b.reopen(); err != nil {
		return err
	}
	if err := b.read(0, len(b.want)); err != nil {
		return err
	}
	return b.f.Close()
}

// span returns a random range; in whole pages for direct I/O.
func (b *byteFile) span() (off, n int) {
	off, n = b.rnd.IntN(fileMost/2), 1+b.rnd.IntN(30000)
	if b.rnd.IntN(30) == 0 {
		n = b.rnd.IntN(fileMost / 2)
	}
	if b.rnd.IntN(3) == 0 {
		off = b.rnd.IntN(len(b.want) + 1)
		off = min(off, fileMost/2)
	}
	if b.how == "direct" {
		off, n = off&^4095, (n+4095)&^4095
	}
	return off, n
}

func (b *byteFile) step() error {
	off, n := b.span()
	switch k := b.rnd.IntN(20); {
	case k < 8:
		return b.write(off, n)
	case k < 15:
		return b.read(off, n)
	case k < 16:
		if err := b.f.Truncate(int64(off)); err != nil {
			return err
		}
		b.resize(off)
	case k < 17:
		return b.f.Sync()
	case k < 18:
		return b.reopen()
	case b.how == "mmap" || b.how == "buffered":
		return b.useMap(off, n)
	default:
		st, err := b.f.Stat()
		if err != nil || st.Size() != int64(len(b.want)) {
			return fmt.Errorf("size %d, want %d: %v", st.Size(), len(b.want), err)
		}
	}
	return nil
}

// resize makes the model n bytes long, with zeros where it grows.
func (b *byteFile) resize(n int) {
	if n <= len(b.want) {
		b.want = b.want[:n]
		return
	}
	b.want = append(b.want, make([]byte, n-len(b.want))...) // bytes cut off before are zero again
}

func (b *byteFile) write(off, n int) error {
	data := b.buf[:n]
	first := byte(b.rnd.Uint32())
	for i := range data {
		data[i] = first + byte(i*7>>3)
	}
	if _, err := b.f.WriteAt(data, int64(off)); err != nil {
		return fmt.Errorf("write %d at %d: %w", n, off, err)
	}
	if len(b.want) < off+n {
		b.resize(off + n)
	}
	copy(b.want[off:], data)
	return nil
}

func (b *byteFile) read(off, n int) error {
	n = min(n, len(b.buf))
	got, err := unix.Pread(int(b.f.Fd()), b.buf[:n], int64(off))
	if err != nil {
		return fmt.Errorf("read %d at %d: %w", n, off, err)
	}
	want := b.want[min(off, len(b.want)):min(off+n, len(b.want))]
	return compare(fmt.Sprintf("read %d at %d", n, off), b.buf[:got], want, off)
}

// compare names the first byte that is wrong.
func compare(what string, got, want []byte, off int) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("%s: byte %d is %#x, want %#x (file offset %d)", what, i, got[i], want[i], off+i)
		}
	}
	return fmt.Errorf("%s: %d bytes, want %d", what, len(got), len(want))
}

// reopen closes and opens the file.
func (b *byteFile) reopen() error {
	if b.f != nil {
		if err := b.f.Close(); err != nil {
			return err
		}
	}
	how := os.O_RDWR | os.O_CREATE
	switch b.how {
	case "direct":
		how |= unix.O_DIRECT
	case "sync":
		how |= unix.O_DSYNC
	}
	var err error
	b.f, err = os.OpenFile(b.path, how, 0o644)
	return err
}

// useMap maps a range, compares it with the expected bytes, and changes some bytes of both.
func (b *byteFile) useMap(off, n int) error {
	off &^= 4095
	if off >= len(b.want) {
		return nil
	}
	n = min(n, len(b.want)-off)
	m, err := unix.Mmap(int(b.f.Fd()), int64(off), n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mmap %d at %d: %w", n, off, err)
	}
	if err := compare(fmt.Sprintf("mapping of %d at %d", n, off), m, b.want[off:off+n], off); err != nil {
		return err
	}
	for i := 0; i < n; i += 1 + b.rnd.IntN(2000) {
		m[i] ^= 0x5a
		b.want[off+i] ^= 0x5a
	}
	if b.rnd.IntN(2) == 0 {
		if err := unix.Msync(m, unix.MS_SYNC); err != nil {
			return err
		}
	}
	return unix.Munmap(m)
}
