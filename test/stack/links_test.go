// SYMLINK and READLINK with targets of every length: inline, as a Read chunk, and in a Reply or
// Write chunk.

package stack

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
)

// maxTarget is the longest target tried, and pathMax the longest one that is accepted, in bytes.
const (
	maxTarget = 4096
	pathMax   = 4095
)

// targetLens returns the lengths to try: all with NFSRDMA_FULL=1, otherwise those at the edges and
// some between.
func targetLens(l *lane) (lens []int) {
	step := 61
	if l.name == "memfs/rdma" {
		step = 7
	}
	for n := 1; n <= maxTarget; n++ {
		if full || n < 10 || n%step == 0 || n%1024 <= 1 || n%1024 == 1023 || n > maxTarget-5 {
			lens = append(lens, n)
		}
	}
	return lens
}

func TestLinks(t *testing.T) {
	overLanes(t, func(t *testing.T, l lane, s *rig.Server) {
		f := s.Mount(t, l.opt)
		var g errgroup.Group
		g.SetLimit(8)
		for _, n := range targetLens(&l) {
			g.Go(func() error {
				err := link(f, n)
				if tooLong := errors.Is(err, syscall.ENAMETOOLONG); tooLong != (n > pathMax) {
					return fmt.Errorf("target of %d bytes: %t that it is too long", n, tooLong)
				} else if tooLong {
					return nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Errorf("g.Wait: %v", err)
		}
	})
}

// link makes a link with a target of n bytes, reads it back, and removes it.
func link(f *nfsclient.FS, n int) error {
	target := strings.Repeat("directory/", n/10+1)[:n]
	name := fmt.Sprint("link", n)
	if err := f.Symlink(bg, target, name); err != nil {
		return err
	}
	got, err := f.ReadLink(bg, name)
	if err != nil || got != target {
		return fmt.Errorf("target of %d bytes: read %d, %w", n, len(got), err)
	}
	return f.Remove(bg, name)
}
