// A JuiceFS volume to measure: Redis, objects in files, its servers, and JuiceFS's program.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A juice is a volume with its services. All data is in memory, so that the CPU work is measured.
type juice struct {
	b       *bed
	objects string // the directory of the volume's objects
	redis   *redis
	volume  string // the URL of its metadata
	dirs    int    // number of directories made, for unique names
}

// errNoJuice is the reason why a volume cannot be measured.
var errNoJuice = errors.New("has to be run by root, with /dev/fuse and redis-server, which is a package of Debian")

// volumeOf returns the rig for the JuiceFS groups; the first call makes it.
func (b *bed) volumeOf(ctx context.Context) (*juice, error) {
	if b.juice != nil {
		return b.juice, nil
	}
	if !isolated() || unix.Access("/dev/fuse", unix.W_OK) != nil {
		return nil, errNoJuice
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errNoJuice
	}
	j := &juice{b: b, objects: filepath.Join(b.base, "objects") + "/"}
	if err := j.build(ctx); err != nil {
		return nil, err
	}
	if err := j.startRedis(); err != nil {
		return nil, err
	}
	var err error
	if j.volume, err = j.format(1); err != nil {
		return nil, err
	}
	b.juice = j
	return j, nil
}

// format makes a volume with its metadata in one Redis database and its objects in a separate
// directory. Its settings are the defaults of `juicefs format`, except that removed files do not
// stay in the trash.
func (j *juice) format(database int) (url string, err error) {
	url = j.redis.url(database)
	return url, command(j.program("juicefs"), "--no-agent", "format", "--quiet", "--storage", "file", "--bucket", fmt.Sprintf("%s%d/", j.objects, database), "--trash-days", "0", url, "bench")
}

// program returns the path of a program made by build.
func (j *juice) program(name string) string { return filepath.Join(j.b.base, name) }

// build builds our server of volumes, and JuiceFS's program at the server's version. The programs
// contain only the measured services, because other services take minutes to compile. JuiceFS's
// program needs a C compiler for its compression.
func (j *juice) build(ctx context.Context) error {
	root, err := output(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/nfsrdma/nfsrdma"))
	if err != nil {
		return err
	}
	top := strings.TrimSpace(string(root))
	module := filepath.Join(top, "nfsserver", "juicefs")
	tags, err := os.ReadFile(filepath.Join(module, "tags"))
	if err != nil {
		return err
	}
	few := strings.TrimSpace(string(tags))
	for _, p := range []struct{ dir, tags, pkg, cgo string }{
		{filepath.Join(top, "cmd", "nfsrdmad-juicefs"), few, ".", "0"},
		{filepath.Join(module, "testdata", "juicefs"), few + " nogateway nowebdav", "github.com/juicedata/juicefs", "1"},
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-tags", p.tags, "-o", j.b.base+"/", p.pkg)
		cmd.Dir, cmd.Env = p.dir, append(os.Environ(), "CGO_ENABLED="+p.cgo, "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", p.pkg, err, out)
		}
	}
	return nil
}

// dir makes a directory with a new name.
func (j *juice) dir(name string) (string, error) {
	j.dirs++
	d := filepath.Join(j.b.base, fmt.Sprintf("%s-%d", name, j.dirs))
	return d, os.Mkdir(d, 0o755)
}

// serveVolume starts nfsrdmad-juicefs with an empty cache.
func (j *juice) serveVolume() (*server, error) {
	cache, err := j.dir("cache")
	if err != nil {
		return nil, err
	}
	return j.b.serveBy("nfsrdmad-juicefs", filepath.Base(cache)+"-state", "--cache-dir", cache, j.volume+"=/bench")
}

// stop ends a process started by start, with SIGTERM.
func (b *bed) stop(pid int) error {
	for i, cmd := range b.procs {
		if cmd.Process.Pid == pid {
			b.procs = append(b.procs[:i], b.procs[i+1:]...)
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
			return nil
		}
	}
	return fmt.Errorf("process %d is not ours", pid)
}
