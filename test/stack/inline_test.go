// Every size of WRITE and READ from nothing to 8 KiB at every alignment, which crosses the inline
// threshold both ways.

package stack

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// full makes the tests leave out nothing to save time.
var full = os.Getenv("NFSRDMA_FULL") != ""

// sweepTo bounds the sizes to try, from 0 on. The full test tries each size at four alignments of
// file offset and memory; the short one tries it at one of them, in turn.
const sweepTo = 8 << 10

func TestInlineSweep(t *testing.T) {
	overLanes(t, func(t *testing.T, l lane, s *rig.Server) {
		if (l.dir || l.crc == rnic.CRCOff) && !full {
			t.Skip("neither tree nor CRC makes a difference to a header; NFSRDMA_FULL=1 does it all the same")
		}
		f := s.Mount(t, l.opt)
		var g errgroup.Group
		const workers = 8
		for w := range workers {
			g.Go(func() error { return sweep(f, w, workers) })
		}
		if err := g.Wait(); err != nil {
			t.Errorf("g.Wait: %v", err)
		}
	})
}

// sweep writes and reads every n-th size, from size w on, in its own file.
func sweep(f *nfsclient.FS, w, n int) error {
	fh, err := create(f, fmt.Sprint("sweep", w))
	if err != nil {
		return err
	}
	source := randomBytes(uint64(w), sweepTo+8)
	sink := make([]byte, sweepTo+16)
	for size := w; size <= sweepTo; size += n {
		for align := range 4 {
			if !full && align != (size/4+size)%4 {
				continue
			}
			if err := sweepOne(f.Client(), fh, source, sink, size, align); err != nil {
				return fmt.Errorf("%d bytes, alignment %d: %w", size, align, err)
			}
		}
	}
	return nil
}

// sweepOne writes and reads size bytes; the bytes around the sink must stay as they are.
func sweepOne(c *nfsclient.Client, fh nfs3.FH, source, sink []byte, size, align int) error {
	data := source[size%3+align:][:size]
	off := uint64(4*size + align)
	if err := writeAll(c, fh, data, off); err != nil {
		return err
	}
	for i := range sink[:size+12] {
		sink[i] = 0xaa
	}
	from := 4 + align
	n, _, err := c.Read(bg, fh, sink[from:from+size], off)
	switch {
	case err != nil:
		return err
	case n != size || !bytes.Equal(sink[from:from+size], data):
		return fmt.Errorf("read back %d bytes, or others than written", n)
	}
	for i, b := range sink[:size+12] {
		if (i < from || i >= from+size) && b != 0xaa {
			return fmt.Errorf("byte %d beside the sink was changed", i-from)
		}
	}
	return nil
}
