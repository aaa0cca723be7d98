// Files up to the server's maxfilesize.

package fusefs_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// A smallFS reports maxfilesize, and does not enforce it.
type smallFS struct {
	nfsserver.FS
	most uint64
}

func (s smallFS) Info() nfsserver.Info {
	in := s.FS.Info()
	in.MaxFileSize = s.most
	return in
}

// A write beyond FSINFO's maxfilesize fails at once, as with Linux's client. A write across it is
// shortened (write(2)).
func TestLargestFile(t *testing.T) {
	const most = 1<<20 + 100
	m := mount(t, options{MaxFile: most})
	f, err := os.Create(m.at("file"))
	must.Succeed(t, err)
	defer f.Close()
	fd := int(f.Fd())
	data := make([]byte, 200)
	n, err := unix.Pwrite(fd, data, most-50)
	must.Succeed(t, err)
	if n != 50 {
		t.Errorf("%d bytes written up to the limit, want 50", n)
	}
	for _, off := range []int64{most, most + 1, 1 << 40} {
		_, err = unix.Pwrite(fd, data, off)
		want(t, err, syscall.EFBIG)
	}
	want(t, unix.Ftruncate(fd, most+1), syscall.EFBIG)
	want(t, os.Truncate(m.at("file"), most+1), syscall.EFBIG)
	must.Succeed(t, unix.Ftruncate(fd, most))
	want(t, unix.Fallocate(fd, 0, 0, most+1), syscall.EFBIG)
	want(t, unix.Fallocate(fd, 0, 0, most), syscall.EOPNOTSUPP)
	must.Succeed(t, unix.Fsync(fd))
	st, err := os.Stat(m.at("file"))
	must.Succeed(t, err)
	if st.Size() != most {
		t.Errorf("%d bytes here, want %d", st.Size(), most)
	}
	st, err = os.Stat(m.there("file"))
	must.Succeed(t, err)
	if st.Size() != most {
		t.Errorf("%d bytes on the server, want %d", st.Size(), most)
	}

	end, err := os.OpenFile(m.at("file"), os.O_WRONLY|os.O_APPEND, 0)
	must.Succeed(t, err)
	defer end.Close()
	_, err = unix.Write(int(end.Fd()), data)
	want(t, err, syscall.EFBIG)
	must.Succeed(t, unix.Ftruncate(fd, most-10))
	n, err = unix.Write(int(end.Fd()), data)
	must.Succeed(t, err)
	if n != 10 {
		t.Errorf("%d bytes appended up to the limit, want 10", n)
	}
	must.Succeed(t, f.Sync())

	direct, err := os.OpenFile(m.at("direct"), os.O_WRONLY|os.O_CREATE|unix.O_DIRECT, 0o600)
	must.Succeed(t, err)
	defer direct.Close()
	_, err = unix.Pwrite(int(direct.Fd()), data, most)
	want(t, err, syscall.EFBIG)
}
