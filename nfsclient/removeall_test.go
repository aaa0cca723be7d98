// Removing trees: failures do not stop a removal, and no server makes a removal endless.

package nfsclient_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// refuseRemove answers REMOVE with a status for selected names.
func refuseRemove(status nfs3.Status, which func(name []byte) bool) func(run) run {
	return func(real run) run {
		return func(c *transport.Call) error {
			var args nfs3.RemoveArgs
			peek := *c.Args
			args.DecodeXDR(&peek)
			if !which(args.Name) {
				return real(c)
			}
			c.Args.Rest()
			(&nfs3.RemoveRes{Status: status}).EncodeXDR(c.Res)
			return nil
		}
	}
}

// A name that is listed but does not exist must not be tried forever.
func TestRemoveAllEndsWhenListedNamesAreNotThere(t *testing.T) {
	var listings atomic.Int64
	rows := map[uint32]func(run) run{
		nfs3.ProcRemove: refuseRemove(nfs3.ErrNoEnt, func([]byte) bool { return true }),
		nfs3.ProcReaddirplus: func(real run) run {
			return func(c *transport.Call) error { listings.Add(1); return real(c) }
		},
	}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		listings.Store(0)
		must.Succeed(t, fsys.MkdirAll(t.Context(), "d", 0o755))
		must.Succeed(t, fsys.WriteFile(t.Context(), "d/f", nil, 0o600))
		if err := fsys.RemoveAll(t.Context(), "d"); !errors.Is(err, syscall.ENOTEMPTY) {
			t.Errorf("%v, want ENOTEMPTY", err)
		}
		if n := listings.Load(); n > 3 {
			t.Errorf("%d listings", n)
		}
	})
}

// As much as possible is removed. Each failure is reported once, and the directories above it stay.
func TestRemoveTreeContinuesAfterErrors(t *testing.T) {
	rows := map[uint32]func(run) run{nfs3.ProcRemove: refuseRemove(nfs3.ErrAcces, func(name []byte) bool {
		return bytes.HasPrefix(name, []byte("keep"))
	})}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		for i := range 100 {
			dir := fmt.Sprintf("d/%d", i%4)
			must.Succeed(t, fsys.MkdirAll(ctx, dir, 0o755))
			must.Succeed(t, fsys.WriteFile(ctx, fmt.Sprintf("%s/f%d", dir, i), nil, 0o600))
		}
		must.Succeed(t, fsys.WriteFile(ctx, "d/1/keep", nil, 0o600))
		must.Succeed(t, fsys.WriteFile(ctx, "d/keep", nil, 0o600))
		var failed []string
		removed := 0
		err := fsys.RemoveTree(ctx, "d", nfsclient.TreeRemoval{
			Failed:  func(name string, err error) { failed = append(failed, name) },
			Removed: func(string, bool) { removed++ },
		})
		slices.Sort(failed)
		if !errors.Is(err, syscall.EACCES) {
			t.Errorf("got %v, want %v", err, syscall.EACCES)
		}
		if want := []string{"d/1/keep", "d/keep"}; !slices.Equal(failed, want) {
			t.Errorf("failed: got %q, want %q", failed, want)
		}
		if removed != 103 {
			t.Errorf("%d removed, want 103", removed)
		}
		for dir, want := range map[string][]string{"d": {"1", "keep"}, "d/1": {"keep"}} {
			sub, err := fsys.Sub(ctx, dir)
			must.Succeed(t, err)
			if got := slices.Collect(names(t, sub)); !slices.Equal(got, want) {
				t.Errorf("%s holds %q, want %q", dir, got, want)
			}
		}
	})
}

// If a listing skips names after removals, because its cookies are positions, RemoveAll lists
// again.
func TestRemoveAllListsAgain(t *testing.T) {
	rows := map[uint32]func(run) run{nfs3.ProcReaddirplus: func(real run) run {
		return func(c *transport.Call) error {
			at := c.Res.Len()
			if err := real(c); err != nil {
				return err
			}
			var res nfs3.ReaddirplusRes
			res.DecodeXDR(xdr.NewDecoder(bytes.Clone(c.Res.Bytes()[at:])))
			res.Entries = res.Entries[:min(3, len(res.Entries))] // the reply still has EOF
			c.Res.Truncate(at)
			res.EncodeXDR(c.Res)
			return nil
		}
	}}
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		for i := range 20 {
			must.Succeed(t, fsys.MkdirAll(t.Context(), fmt.Sprintf("d/%d", i), 0o755))
		}
		must.Succeed(t, fsys.RemoveAll(t.Context(), "d"))
	})
}

// Objects for which the callback says no stay, and so do the directories above them.
func TestRemoveTreeAsks(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx := t.Context()
		for _, d := range []string{"d/a", "d/b", "d/empty"} {
			must.Succeed(t, fsys.MkdirAll(ctx, d, 0o755))
		}
		must.Succeed(t, fsys.WriteFile(ctx, "d/a/no", nil, 0o600))
		must.Succeed(t, fsys.WriteFile(ctx, "d/a/yes", nil, 0o600))
		must.Succeed(t, fsys.WriteFile(ctx, "d/b/yes", nil, 0o600))
		var asked []string
		must.Succeed(t, fsys.RemoveTree(ctx, "d/", nfsclient.TreeRemoval{Ask: func(name string, fi *nfsclient.FileInfo, enter bool) bool {
			asked = append(asked, fmt.Sprint(name, " ", enter))
			return filepath.Base(name) != "no"
		}}))
		slices.Sort(asked)
		want := []string{"d/ true", "d/a true", "d/a/no false", "d/a/yes false", "d/b false", "d/b true", "d/b/yes false", "d/empty false"}
		if !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
		if _, err := fsys.Stat(ctx, "d/a/no"); err != nil {
			t.Errorf("stat: %v", err)
		}
		for _, p := range []string{"d/b", "d/empty", "d/a/yes"} {
			if _, err := fsys.Stat(ctx, p); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", p, err)
			}
		}
	})
}
