// Locks in trees chosen for each caller.

package nlm

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A perUser has a tree for each user, which open makes.
type perUser struct {
	open func() (nfsserver.FS, error)
}

func (perUser) Mount(c nfsserver.Caller, _ string) (uint64, string, error) {
	return uint64(c.UID), "", nil
}
func (perUser) May(nfsserver.Caller, uint64) error                    { return nil }
func (p perUser) Open(nfsserver.Caller, uint64) (nfsserver.FS, error) { return p.open() }

// TestLocksOfTrees: files in two trees with equal Refs have separate locks. If the FS has a Locker,
// a lock on a file keeps the file's tree open.
func TestLocksOfTrees(t *testing.T) {
	r := plainRig(t)
	memory := perUser{func() (nfsserver.FS, error) { return memfs.New(memfs.Options{Mode: 0o777}), nil }}
	disk := perUser{func() (nfsserver.FS, error) { return osfs.New(r.dir, osfs.Options{}) }}
	r.newFile("f", 0o666)
	if err := r.nfs.Replace([]nfsserver.Export{{Name: "/memory", Trees: memory}, {Name: "/home", Trees: disk, MaxTrees: 1}}); err != nil {
		t.Fatalf("Replace: %v", err)
	}
	a, b := r.tcp("a", rootCred), r.tcp("b", userCred)
	fa, fb := a.file("/memory", "f"), b.file("/memory", "f")
	a.want("LOCK", a.lock(fa, 1, 0, 0, true), nlm4.Granted)
	b.want("LOCK in the other tree", b.lock(fb, 1, 0, 0, true), nlm4.Granted)
	c := r.tcp("c", rootCred)
	c.want("LOCK in the first tree", c.lock(fa, 1, 0, 0, true), nlm4.Denied)

	f := a.file("/home", "f")
	a.want("LOCK", a.lock(f, 1, 0, 0, true), nlm4.Granted)
	mount := func() mount3.Status {
		var mnt mount3.MntRes
		b.do(mount3.Program, mount3.Version, mount3.ProcMnt, &mount3.PathArgs{Path: "/home"}, &mnt)
		return mnt.Status
	}
	if st := mount(); st != mount3.ErrServerFault {
		t.Errorf("MNT while a lock keeps the only tree open: %v", st)
	}
	a.want("UNLOCK", a.unlock(f, 1, 0, 0), nlm4.Granted)
	if st := mount(); st != mount3.OK {
		t.Errorf("MNT after the unlock: %v", st)
	}
}
