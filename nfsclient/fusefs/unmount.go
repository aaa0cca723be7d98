// The end of a mount: unmounting it, or abandoning it while in use.

package fusefs

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrCovered is the error of Unmount if the directory shows something else. That is another mount
// on top, which the kernel would unmount instead of ours, or the tree below a detached mount.
var ErrCovered = errors.New("it is not what the directory shows")

// Wait waits until the file system is unmounted and all written data is on the server. The error
// reports lost data.
func (m *MountPoint) Wait() error {
	<-m.served
	return m.fs.lastError()
}

// Unmount commits written data to stable storage and unmounts. It fails while files are open
// (syscall.EBUSY) or the directory shows something else (ErrCovered); the mount then continues. It
// returns when the kernel has released the mount in all namespaces.
func (m *MountPoint) Unmount() error {
	m.fs.sync(context.Background())
	select {
	case <-m.served:
		return m.fs.lastError()
	default:
	}
	if dev := deviceAt(m.dir); dev != 0 && m.dev != 0 && dev != m.dev {
		return fmt.Errorf("unmount %s: %w", m.dir, ErrCovered)
	}
	if err := m.server.Unmount(); err != nil {
		return fmt.Errorf("unmount %s: %s", m.dir, strings.TrimSpace(err.Error()))
	}
	return m.Wait()
}

// Sync commits all data written so far to stable storage. The error is from ctx or reports lost
// data.
func (m *MountPoint) Sync(ctx context.Context) error {
	m.fs.sync(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.fs.lastError()
}

// Held reports whether the kernel still has the mount. If a held mount has left the directory tree,
// another mount namespace has a copy, or programs still use the mount after a lazy unmount.
func (m *MountPoint) Held() bool { return m.server.Connected() }

// Abandon ends a mount in use. It commits written data to stable storage and accepts no more,
// because the process is about to end and would lose new data. Programs still using the mount get
// errors. The error reports lost data.
func (m *MountPoint) Abandon() error {
	m.fs.deferred.send()
	if err := m.fs.engine.Close(context.Background()); err != nil {
		m.fs.failed(err)
	}
	return m.fs.lastError()
}

// Device returns the mount's device number, as in stat(2), or 0 if it is unknown.
func (m *MountPoint) Device() uint64 { return m.dev }
