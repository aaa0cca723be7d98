// Caches on file systems that other users have mounted.

package ccache_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A oneFile is a FUSE file system with a regular file as its root: mode 0600, owned by root, with a
// cache's base name as content.
type oneFile struct {
	fuse.RawFileSystem
	content []byte
}

func (f *oneFile) GetAttr(_ <-chan struct{}, _ *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	out.Mode, out.Ino, out.Nlink, out.Size = unix.S_IFREG|0o600, 1, 1, uint64(len(f.content))
	return fuse.OK
}

func (f *oneFile) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }

func (f *oneFile) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	return fuse.ReadResultData(f.content[min(in.Offset, uint64(len(f.content))):]), fuse.OK
}

func (f *oneFile) StatFs(<-chan struct{}, *fuse.InHeader, *fuse.StatfsOut) fuse.Status {
	return fuse.OK
}

// serves is the environment variable that makes a copy of this program serve a oneFile with the
// variable's value as content. Serving needs another process, because one that uses its own FUSE
// file system can wait for itself.
const serves = "NFSRDMA_CCACHE_TEST_SERVES"

func TestMain(m *testing.M) {
	content := os.Getenv(serves)
	if content == "" {
		os.Exit(m.Run())
	}
	s, err := fuse.NewServer(&oneFile{fuse.NewDefaultRawFileSystem(), []byte(content)}, "/dev/fd/3", &fuse.MountOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.Serve()
}

// mountFile mounts a FUSE file system on a file, as fusermount does for the user by. The mounted
// file claims to be root's cache. Without content no process serves it.
func mountFile(t *testing.T, at string, by int, content string) {
	t.Helper()
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil || os.Geteuid() != 0 {
		machine.Skip(t, "needs root and /dev/fuse")
	}
	defer dev.Close()
	must.Succeed(t, os.WriteFile(at, nil, 0o600))
	options := fmt.Sprintf("fd=%d,rootmode=100000,user_id=%d,group_id=%d,allow_other", dev.Fd(), by, by)
	must.Succeed(t, unix.Mount("cache", at, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options))
	if content == "" {
		kept, err := unix.Dup(int(dev.Fd()))
		must.Succeed(t, err)
		t.Cleanup(func() { unix.Close(kept) })
	} else {
		server := exec.Command(os.Args[0])
		server.Env, server.ExtraFiles, server.Stderr = append(os.Environ(), serves+"="+content), []*os.File{dev}, os.Stderr
		must.Succeed(t, server.Start())
		t.Cleanup(func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		})
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}

// TestCachesOnAnothersFileSystem: a file system that another user has mounted claims that its file
// belongs to this user. The search neither reads the file, nor waits for the file system.
func TestCachesOnAnothersFileSystem(t *testing.T) {
	p := newPlace(t)
	at := filepath.Join(p.temp, "krb5cc_"+p.id)
	mountFile(t, at, 4711, "")
	p.wantNone("mounted by uid 4711")
	name := at + "_x"
	mountFile(t, name, 4711, "")
	want := p.put(at + "_y")
	if got, err := p.find(); len(got) != 1 || got[0] != "FILE:"+want {
		t.Errorf("beside it: got %q, %v, want %s", got, err, want)
	}
	p.Default = "DIR:" + at
	if got, err := p.find(); len(got) != 1 || got[0] != "FILE:"+want {
		t.Errorf("as a collection: got %q, %v, want %s", got, err, want)
	}
}

// TestCachesOnOwnFileSystem: caches are found on FUSE file systems that root or the user has
// mounted.
func TestCachesOnOwnFileSystem(t *testing.T) {
	p := newPlace(t)
	at := filepath.Join(p.temp, "krb5cc_"+p.id)
	mountFile(t, at, 0, filepath.Base(at))
	p.want("FILE:" + at)
}
