// Local files, open for reading or writing.

package treecopy

import (
	"context"
	"io/fs"
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"golang.org/x/sys/unix"
)

// A localFile is a Source or a Sink.
type localFile struct {
	*os.File
	fd     int // the descriptor of File; a call of File.Fd would make it blocking
	stream bool
	unwait func() bool // stops the callback that runs at the end of ctx
}

// openFile opens a name. With a FIFO, the end of ctx ends any wait for the other side.
func (d *localDir) openFile(ctx context.Context, m Meta, flag int) (*localFile, error) {
	pipe := m.Mode.Type() == fs.ModeNamedPipe
	var fd int
	var err error
	if pipe {
		fd, err = d.openPipe(ctx, m.Name, flag)
	} else {
		fd, err = openAt(d.fd, m.Name, flag, 0)
	}
	if err != nil {
		return nil, err
	}
	if pipe {
		_ = unix.SetNonblock(fd, true) // package os can then use deadlines
	}
	f := &localFile{File: os.NewFile(uintptr(fd), d.Text(m.Name)), fd: fd, unwait: func() bool { return true }}
	now, err := statFD(fd)
	if err != nil {
		f.File.Close()
		return nil, err
	}
	// A file without size or positions is read and written sequentially.
	f.stream = !now.Mode.IsRegular() || now.Size == 0 && flag&unix.O_WRONLY == 0
	if pipe {
		f.unwait = context.AfterFunc(ctx, func() { _ = f.SetDeadline(time.Unix(1, 0)) })
	}
	return f, nil
}

// openPipe waits for the other side of a FIFO. If ctx ends first, openPipe opens the FIFO for both
// sides, which does not wait and ends the goroutine's wait. Without permission for both sides, the
// goroutine stays until the other side opens the FIFO.
func (d *localDir) openPipe(ctx context.Context, name string, flag int) (int, error) {
	type opened struct {
		fd  int
		err error
	}
	got := make(chan opened, 1)
	go func() {
		fd, err := openAt(d.fd, name, flag, 0)
		got <- opened{fd, err}
	}()
	select {
	case o := <-got:
		return o.fd, o.err
	case <-ctx.Done():
		both, err := openAt(d.fd, name, unix.O_RDWR|unix.O_NONBLOCK|flag&unix.O_NOFOLLOW, 0)
		go func() {
			if o := <-got; o.err == nil {
				unix.Close(o.fd)
			}
			if err == nil {
				unix.Close(both)
			}
		}()
		return 0, ctx.Err()
	}
}

func statFD(fd int) (Meta, error) { return statAt(fd, "", unix.AT_EMPTY_PATH) }

func (d *localDir) Open(ctx context.Context, m Meta) (Source, error) {
	f, err := d.openFile(ctx, m, unix.O_RDONLY|m.linkFlag())
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *localDir) Overwrite(ctx context.Context, m Meta) (Sink, error) {
	f, err := d.openFile(ctx, m, unix.O_WRONLY|unix.O_TRUNC|m.linkFlag())
	if err != nil {
		return nil, err
	}
	return f, nil
}

// linkFlag keeps an open from following a link, unless the lookup followed it.
func (m *Meta) linkFlag() int {
	if m.followed {
		return 0
	}
	return unix.O_NOFOLLOW
}

func (d *localDir) Create(_ context.Context, name string, perm fs.FileMode, _ int) (Sink, error) {
	fd, err := openAt(d.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	return &localSink{localFile{File: os.NewFile(uintptr(fd), d.Text(name)), fd: fd, unwait: func() bool { return true }}, d}, nil
}

func (f *localFile) Stream() bool { return f.stream }

func (f *localFile) NextData(off int64) (start, end int64, ok bool, err error) {
	return nextData(f.fd, off)
}

func (f *localFile) Size() (int64, error) {
	m, err := f.Stat()
	return m.Size, err
}

func (f *localFile) Stat() (Meta, error) { return statFD(f.fd) }

// ACLs reads the open file's ACLs.
func (f *localFile) ACLs(context.Context) (nfsclient.ACLs, error) {
	return readACLs(false, func(attr string, b []byte) (int, error) { return unix.Fgetxattr(f.fd, attr, b) })
}

// WriteAt ignores off if the file is a stream.
func (f *localFile) WriteAt(p []byte, off int64) (int, error) {
	if f.stream {
		return f.Write(p)
	}
	return f.File.WriteAt(p, off)
}

// Sync does nothing for a FIFO or a device.
func (f *localFile) Sync() error {
	if f.stream {
		return nil
	}
	return f.File.Sync()
}

func (f *localFile) SetAttr(_ context.Context, a Attr) error {
	if a.SetOwner {
		if err := unix.Fchown(f.fd, a.UID, a.GID); err != nil {
			return err
		}
	}
	if a.SetACLs {
		if err := writeACLsOf(f.fd, &a.ACLs); err != nil {
			return err
		}
	}
	if a.SetMode {
		if err := unix.Fchmod(f.fd, sysMode(a.Mode)); err != nil {
			return err
		}
	}
	if a.Atime.IsZero() && a.Mtime.IsZero() {
		return nil
	}
	ts := []unix.Timespec{timespec(a.Atime), timespec(a.Mtime)}
	return utimensFD(f.fd, ts)
}

func (f *localFile) Adopt(context.Context, *Meta) error { return nil }

func (f *localFile) Close() error {
	f.unwait()
	return f.File.Close()
}

// A localSink is a Sink for a new file in a directory.
type localSink struct {
	localFile
	d *localDir
}

// Adopt copies the attributes directly from the old file.
func (s *localSink) Adopt(_ context.Context, old *Meta) error {
	now, err := s.Stat()
	if err != nil {
		return err
	}
	if now.UID != old.UID || now.GID != old.GID {
		if err := s.Chown(int(old.UID), int(old.GID)); err != nil {
			return err
		}
	}
	// The directory's default ACL may grant access to users without access to the old file.
	if err := writeACLsOf(s.fd, &nfsclient.ACLs{}); err != nil {
		return err
	}
	if err := unix.Fchmod(s.fd, sysMode(old.Mode)); err != nil {
		return err
	}
	fd, err := openAt(s.d.fd, old.Name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err // the old attributes are unreadable
	}
	defer unix.Close(fd)
	return copyXattrs(fd, s.fd, carried)
}
