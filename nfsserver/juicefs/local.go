// Stable storage of volumes in local directories: data that Badger and JuiceFS's "file" storage
// leave in the page cache.

package juicefs

import (
	"fmt"
	"strings"
	"sync"

	"github.com/juicedata/juicefs/pkg/meta"
	"golang.org/x/sys/unix"
)

// JuiceFS opens Badger without syncing, and its "file" storage writes and renames. Both survive the
// process, but not a crash of the machine. localDirs syncs their file systems. Syncs requested
// while one runs share the next.
type localDirs struct {
	fds []int // one for each file system; set once

	mu          sync.Mutex // guards the rest
	ended       sync.Cond  // signals the end of a sync
	running     bool
	begun, done uint64 // counts of syncs
	failed      uint64 // number of the last failed sync
	err         error  // its error
}

// openLocal opens a volume's directories on this machine, if any.
func openLocal(url string, format *meta.Format) (*localDirs, error) {
	l := new(localDirs)
	l.ended.L = &l.mu
	var dirs []string
	if isBadger(url) {
		dirs = append(dirs, strings.TrimPrefix(url, "badger://"))
	}
	if strings.EqualFold(format.Storage, "file") {
		dirs = append(dirs, format.Bucket)
	}
	seen := map[uint64]bool{}
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("juicefs: %s: %w", dir, err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || seen[st.Dev] {
			unix.Close(fd)
			continue
		}
		seen[st.Dev] = true
		l.fds = append(l.fds, fd)
	}
	return l, nil
}

// sync returns when all data written before the call is stable.
func (l *localDirs) sync() error {
	if len(l.fds) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.begun + 1 // a running sync may have begun too early for us
	for l.done < mine {
		if l.running {
			l.ended.Wait()
			continue
		}
		l.running = true
		l.begun++
		l.mu.Unlock()
		err := l.syncAll()
		l.mu.Lock()
		l.running = false
		l.done++
		if err != nil {
			l.failed, l.err = l.done, err
		}
		l.ended.Broadcast()
	}
	if l.failed >= mine {
		return l.err
	}
	return nil
}

func (l *localDirs) syncAll() error {
	for _, fd := range l.fds {
		if err := unix.Syncfs(fd); err != nil {
			return err
		}
	}
	return nil
}

func (l *localDirs) close() {
	for _, fd := range l.fds {
		unix.Close(fd)
	}
	l.fds = nil
}
