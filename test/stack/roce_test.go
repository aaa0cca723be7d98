// NFS over RoCE where the network loses, repeats and reorders packets, and with clients of several
// ports.

package stack

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"golang.org/x/sync/errgroup"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
)

// bad returns w as a wire that loses, repeats and reorders 1 % of packets each. On one address all
// packets go through one wire, both ways.
func bad(w udp.Wire) udp.Wire { return rnictest.NewBadWire(w, 10, 1) }

// TestRoCEOverABadWire: several clients write and read files of all sizes at once, and make trees;
// all is as over a good network.
func TestRoCEOverABadWire(t *testing.T) {
	rig.NoLeaks(t)
	s := rig.Start(t, rig.Config{Host: machine.Addr(t).String(), RoCE: roce.OpenWith(rnic.DeviceConfig{}, roce.Options{Wrap: bad})})
	var g errgroup.Group
	for i := range 3 {
		f := s.Mount(t, nfsclient.Options{Provider: nfsclient.RoCE, Conns: 1 + i%2})
		g.Go(func() error { return useTree(f, uint64(i)) })
	}
	if err := g.Wait(); err != nil {
		t.Errorf("g.Wait: %v", err)
	}
}

// useTree makes a directory with files in each size, and reads them back.
func useTree(f *nfsclient.FS, seed uint64) error {
	name := fmt.Sprintf("dir%d", seed)
	if err := f.Mkdir(bg, name, 0o700); err != nil {
		return err
	}
	for _, n := range sizes {
		data := randomBytes(seed<<32|uint64(n), n)
		file := fmt.Sprintf("%s/%d", name, n)
		if err := f.WriteFile(bg, file, data, 0o600); err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
		got, err := f.ReadFile(bg, file)
		if err != nil || !bytes.Equal(got, data) {
			return fmt.Errorf("reading %s: %d bytes, %v", file, len(got), err)
		}
	}
	list, err := f.ReadDir(bg, name)
	if err == nil && len(list) != len(sizes) {
		err = fmt.Errorf("%d names in %s, want %d", len(list), name, len(sizes))
	}
	return err
}
