// The end of a mount: by unmounting it, or by giving it up while it is in use.

package fusefs

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrCovered is the error of Unmount where the directory shows something else: another mount on
// top, which the kernel would unmount in place of ours, or what is below a mount that was detached.
var ErrCovered = errors.New("it is not what the directory shows")

// Wait returns when the file system is unmounted, and all that was written to it is on
// the server, or known to be lost, which is the error.
func (m *MountPoint) Wait() error {
	<-m.served
	return m.fs.lastError()
}

// Unmount brings what was written to stable storage and unmounts. It fails while
// files are open (syscall.EBUSY) and while the directory shows something else (ErrCovered); the
// mount then goes on. It returns when the kernel has let go of the mount in all namespaces.
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

// Sync brings what was written so far to stable storage. The error is that of ctx, or of data that
// was lost.
func (m *MountPoint) Sync(ctx context.Context) error {
	m.fs.sync(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.fs.lastError()
}

// Held reports whether the kernel still has the mount. Where it is gone from the tree, another
// mount namespace has a copy of it, or programs have used it since before it was detached.
func (m *MountPoint) Held() bool { return m.server.Connected() }

// Abandon ends a mount that cannot be unmounted: it brings what was written to stable storage and
// takes no more, so that nothing is accepted that would be lost when the process ends, as it should
// then. Programs that still use the mount get errors. The error is that of data that was lost.
func (m *MountPoint) Abandon() error {
	m.fs.holds.send()
	if err := m.fs.engine.Close(context.Background()); err != nil {
		m.fs.failed(err)
	}
	return m.fs.lastError()
}

// Device is the device number of the mount, as stat(2) has it; 0 where it is not known.
func (m *MountPoint) Device() uint64 { return m.dev }
