// The compared mounts: JuiceFS's, ours of the same volume, and ours of a directory.

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The mounts, by their sample keys.
const (
	mountJuice = "juicefs" // `juicefs mount`: one process between programs and services
	mountOurs  = "ours"    // `nfsrdma mount` with nfsrdmad-juicefs
	mountOsfs  = "osfs"    // `nfsrdma mount` with nfsrdmad and a directory
)

var mountKinds = []string{mountJuice, mountOurs, mountOsfs}

// A mounted is a mount with its processes.
type mounted struct {
	kind   string
	at     string
	client int     // PID of the FUSE process
	server *server // nil: only the services
}

// pids returns the mount's processes by role.
func (m *mounted) pids(r *redis) map[string]int {
	p := map[string]int{"client": m.client}
	if m.server != nil {
		p["server"] = m.server.pid
	}
	if m.kind != mountOsfs {
		p["redis"] = r.pid
	}
	return p
}

// mount mounts with empty caches, except the kernel's page cache of objects and of the directory.
func (j *juice) mount(ctx context.Context, kind string) (m *mounted, err error) {
	m = &mounted{kind: kind}
	if m.at, err = j.dir("mount"); err != nil {
		return nil, err
	}
	var cmd *exec.Cmd
	switch kind {
	case mountJuice:
		cache, err := j.dir("cache")
		if err != nil {
			return nil, err
		}
		cmd = exec.Command(j.program("juicefs"), "--no-agent", "mount", "--no-syslog", "--backup-meta", "0", "--cache-dir", cache, j.volume, m.at)
		// This setting omits the second process, which restarts the first process after a failure.
		cmd.Env = append(os.Environ(), "JFS_SUPERVISOR=1")
	case mountOurs:
		m.server, err = j.serveVolume()
	case mountOsfs:
		m.server, err = j.b.serve(j.b.served, filepath.Base(m.at)+"-state")
	}
	if err != nil {
		return nil, err
	}
	if m.server != nil {
		m.client, err = j.b.mount(ctx, m.server, m.at)
		return m, err
	}
	if err := j.b.start(cmd); err != nil {
		return nil, err
	}
	m.client = cmd.Process.Pid
	return m, j.b.awaitMount(ctx, m.at, filepath.Base(cmd.Path))
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// unmount unmounts after all written data is stable, and ends the processes.
func (j *juice) unmount(m *mounted) error {
	if err := j.b.unmount(m.at, m.client); err != nil || m.server == nil {
		return err
	}
	return j.b.stop(m.server.pid)
}
