// The life of the packages on a machine: installed, used, upgraded under a program that has a file
// open, removed under a mount, purged.

package packages

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A system is the clean system that the packages are installed in.
type system struct {
	*manager
	dir      string   // of the suite: the packages are below
	packages []string // the installed packages
	server
}

// A server is the setup of a machine that runs one of our servers.
type server struct {
	name     string
	export   string // the export's name
	local    string // the exported directory; "": the export is in a volume
	exports  string // the exports file
	own      string // the name of its directories of state and logs
	volumes  string // the line of /etc/default that names volumes; "": the exports file does
	flags    string // the variable of flags there
	keepsKey bool   // has a key in its state directory, which outlives an upgrade
}

var servers = []server{
	{name: "nfsrdmad", export: "/srv/data", local: "srv/data", exports: "exports", own: "nfsrdma", flags: "NFSRDMAD_OPTIONS", keepsKey: true},
	{name: "nfsrdmad-juicefs", export: "/vol", exports: "juicefs-exports", own: "nfsrdma-juicefs", volumes: "NFSRDMAD_JUICEFS_VOLUMES=\"/srv/volume=/vol\"\n",
		flags: "NFSRDMAD_JUICEFS_OPTIONS"},
}

// run runs a program in the system.
func (m *system) run(args ...string) (string, error) {
	return command("/", "chroot", append([]string{m.root}, args...)...)
}

// do runs a program like run, but ends the test if it fails.
func (m *system) do(args ...string) string {
	m.t.Helper()
	out, err := m.run(args...)
	if err != nil {
		m.t.Fatalf("run: %v", err)
	}
	return out
}

func (m *system) path(name string) string { return filepath.Join(m.root, name) }

// install installs packages of a version by apt, as in README.md.
func (m *system) install(version string) {
	m.t.Helper()
	args := []string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y", "install"}
	for _, name := range m.packages {
		debs, err := filepath.Glob(filepath.Join(m.dir, version, name+"_*.deb"))
		if err != nil || len(debs) != 1 {
			m.t.Fatalf("%q, %v", debs, err)
		}
		args = append(args, "/packages/"+version+"/"+filepath.Base(debs[0]))
	}
	m.do(args...)
}

func (m *system) apt(action string, names ...string) {
	m.t.Helper()
	m.do(append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y", action}, names...)...)
}

// insideNamespaces runs the suite inside namespaces, where it changes nothing on the machine.
func insideNamespaces(t *testing.T, dir string) {
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(filepath.Join(root, "packages"), 0o755); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	for _, mount := range [][]string{{"-t", "proc", "proc", root + "/proc"}, {"--rbind", "/dev", root + "/dev"}, {"--bind", dir, root + "/packages"}} {
		must(t, "/", "mount", mount...)
	}
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) { life(t, dir, s) })
	}
}

// life takes one server's package and the client's from one clean system to another.
func life(t *testing.T, dir string, s server) {
	root := filepath.Join(dir, "root")
	must(t, "/", "mount", "-t", "tmpfs", "tmpfs", root+"/run")
	m := &system{newManager(t, root, s.name), dir, []string{s.name, "nfsrdma"}, s}
	before := m.files()
	m.install(older)
	m.documented()
	if calls := m.calls(); !slices.Equal(slices.Compact(calls), []string{"--system daemon-reload"}) {
		t.Errorf("the first installation starts or enables something: %q", calls)
	}
	m.begin()
	m.writeAndRead("first")
	m.rotate("running")
	m.upgrade()
	m.removeClient()
	m.stop()
	m.rotate("stopped")
	m.removeServer()
	m.rotate("removed")
	m.apt("purge", m.packages...)
	for _, made := range []string{"srv/data", "srv/volume", "mnt/data"} {
		if err := os.RemoveAll(m.path(made)); err != nil {
			t.Errorf("os.RemoveAll: %v", err)
		}
	}
	m.nothingLeft(before)
}

// documented: man finds the documentation named in the units and the pages for users; bash
// completes.
func (m *system) documented() {
	m.t.Helper()
	pages := [][]string{{"1", "nfsrdma"}, {"1", "nfsrdma-cp"}, {"8", "mount.nfsrdma"}}
	for _, unit := range []string{"service", "socket"} {
		for _, docs := range m.setting(unit, "Documentation") {
			for _, ref := range regexp.MustCompile(`man:([a-z.-]+)\((\d)\)`).FindAllStringSubmatch(docs, -1) {
				pages = append(pages, []string{ref[2], ref[1]})
			}
		}
	}
	if len(pages) < 5 {
		m.t.Errorf("the units name few pages: %q", pages)
	}
	for _, page := range pages {
		if out, err := m.run("man", "-w", page[0], page[1]); err != nil || !strings.HasPrefix(out, "/usr/share/man/man"+page[0]+"/"+page[1]+"."+page[0]) {
			m.t.Errorf("man %s %s: %q, %v", page[0], page[1], out, err)
		}
	}
	for _, name := range m.packages {
		// As the shell does it at a tab after "NAME comp".
		script := fmt.Sprintf(`. /usr/share/bash-completion/bash_completion; _completion_loader %[1]s; COMP_WORDS=(%[1]s comp); COMP_CWORD=1; COMP_LINE="%[1]s comp"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; __start_%[1]s 2> /dev/null; echo "${COMPREPLY[@]}"`, name)
		if out, err := m.run("bash", "-c", script); err != nil || strings.TrimSpace(out) != "completion" {
			m.t.Errorf("completion of %s: %q, %v", name, out, err)
		}
		for _, file := range []string{"usr/share/zsh/vendor-completions/_" + name, "usr/share/fish/vendor_completions.d/" + name + ".fish", "usr/share/doc/" + name + "/copyright", "usr/share/doc/" + name + "/NOTICES.gz"} {
			if info, err := os.Stat(m.path(file)); err != nil || info.Size() < 100 {
				m.t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// begin takes an administrator's steps after installation: exports, flags, enable, start, mount.
func (m *system) begin() {
	m.t.Helper()
	// Nothing is exported by the package's own files, and the server says so.
	if out, err := m.run(m.server.name, "serve", "--exports", "/etc/nfsrdma/"+m.exports, "--ephemeral-key"); err == nil || !strings.Contains(out, "nothing to export") {
		m.t.Errorf("%q, %v", out, err)
	}
	for _, dir := range []string{"srv/data", "srv/volume", "mnt/data"} {
		if err := os.MkdirAll(m.path(dir), 0o755); err != nil {
			m.t.Fatalf("os.MkdirAll: %v", err)
		}
	}
	put(m.t, m.path("etc/nfsrdma/"+m.exports), m.export+" 127.0.0.1(rw,no_root_squash)\n", 0o644)
	put(m.t, m.path("etc/default/"+m.server.name), m.volumes+m.flags+"=\"--log-format json --audit "+m.audit()+"\"\n", 0o644)
	must(m.t, "/", "systemctl", "--root="+m.root, "enable", m.server.name+".socket", m.server.name+".service")
	m.listen()
	m.start()
	m.do("mount", "-t", "nfsrdma", "-o", "actimeo=1", "127.0.0.1:"+m.export, "/mnt/data")
	if log, err := os.ReadFile(m.path("run/server.log")); err != nil || !strings.Contains(string(log), `{"`) {
		m.t.Errorf("the flags of /etc/default do not reach the server: %v\n%s", err, log)
	}
}

// content returns a file's content on the server: from its directory, or through a client that has
// cached nothing.
func (m *system) content(name string) string {
	m.t.Helper()
	if m.local == "" {
		return must(m.t, "/", filepath.Join(m.dir, older, "bin/nfsrdma"), "cat", "127.0.0.1:"+m.export+"/"+name)
	}
	text, err := os.ReadFile(m.path(m.local + "/" + name))
	if err != nil {
		m.t.Errorf("os.ReadFile: %v", err)
	}
	return string(text)
}

// writeAndRead: a file written on the mount appears on the server, and the other way round.
func (m *system) writeAndRead(name string) {
	m.t.Helper()
	on := m.path("mnt/data/" + name)
	put(m.t, on, "from the mount", 0o644)
	if text := m.content(name); text != "from the mount" {
		m.t.Errorf("the server has %q", text)
	}
	if err := os.Remove(on); err != nil {
		m.t.Errorf("os.Remove: %v", err)
	}
	if m.local == "" {
		return
	}
	name += " of the server"
	on = m.path("mnt/data/" + name)
	put(m.t, m.path(m.local+"/"+name), "from the server", 0o644)
	// The mount sees the server's own changes when its cached copy of the directory is old: with
	// actimeo=1, after a second.
	text, err := os.ReadFile(on)
	for end := time.Now().Add(3 * time.Minute); errors.Is(err, fs.ErrNotExist) && time.Now().Before(end); text, err = os.ReadFile(on) {
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil || string(text) != "from the server" {
		m.t.Errorf("the mount has %q, %v", text, err)
	}
	if err := os.Remove(on); err != nil {
		m.t.Errorf("os.Remove: %v", err)
	}
}

// audit returns the file of --audit that the package's file for logrotate is for.
func (m *system) audit() string { return "/var/log/" + m.own + "/audit.log" }

// awaitRecord returns the audit log once it mentions a file; records are written after their calls
// have been answered.
func (m *system) awaitRecord(name string) (log []byte) {
	m.t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var err error
		if log, err = os.ReadFile(m.path(m.audit())); err == nil && bytes.Contains(log, []byte(name)) {
			return log
		}
	}
	m.t.Fatalf("no record of %s: %q", name, log)
	return nil
}

// rotate: logrotate renames the records and finds nothing wrong, whether the server runs or not; a
// running server goes on in a new file.
func (m *system) rotate(server string) {
	m.t.Helper()
	log := m.path(m.audit())
	if server == "running" {
		m.awaitRecord("first")
	} else { // there is not always anything to report
		put(m.t, log, "{}\n", 0o600)
	}
	before, err := os.ReadFile(log)
	if err != nil {
		m.t.Fatalf("os.ReadFile: %v", err)
	}
	if out, err := m.run("logrotate", "--force", "--state", "/run/logrotate."+server, "/etc/logrotate.d/"+m.server.name); err != nil || out != "" {
		m.t.Errorf("the server is %s: %s, %v", server, out, err)
	}
	if old, err := os.ReadFile(log + ".1"); err != nil || !bytes.HasPrefix(old, before) {
		m.t.Errorf("the server is %s: %q, %v, want %q", server, old, err, before)
	}
	if server == "running" {
		m.writeAndRead("rotated")
		m.awaitRecord("rotated")
	}
}

// upgrade: the next version is installed while a program has a file open; the file stays good, and
// so does the mount.
func (m *system) upgrade() {
	m.t.Helper()
	f, err := os.OpenFile(m.path("mnt/data/open"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		m.t.Fatalf("os.OpenFile: %v", err)
	}
	defer f.Close()
	if _, err := f.WriteString("before "); err != nil {
		m.t.Fatalf("WriteString: %v", err)
	}
	key, pids := m.key(), m.mountProcesses()
	m.install(newer)
	m.mu.Lock()
	starts := m.starts
	m.mu.Unlock()
	calls := m.calls()
	if starts != 2 {
		m.t.Errorf("the server was started %d times, want 2", starts)
	}
	if slices.ContainsFunc(calls, func(c string) bool { return strings.Contains(c, "stop") }) || !slices.Contains(calls, "try-restart "+m.server.name+".service") {
		m.t.Errorf("the upgrade asks systemd for %q", calls)
	}
	if status := m.do(m.server.name, "status"); !strings.HasPrefix(status, m.server.name+" v"+newer+",") {
		m.t.Errorf("the server is not the new one: %s", status)
	}
	if said := m.do("nfsrdma", "--version"); !strings.HasPrefix(said, "nfsrdma version v"+newer+"\n") {
		m.t.Errorf("%s", said)
	}
	if again := m.mountProcesses(); !slices.Equal(again, pids) || len(pids) != 1 {
		m.t.Errorf("processes of mounts: %v before, %v after", pids, again)
	}
	if !maps.Equal(m.key(), key) || m.keepsKey && len(key) == 0 {
		m.t.Errorf("the state of the server is not what it was")
	}
	// Write to the file that was open, by its handle from the older server.
	if _, err := f.WriteString("after"); err != nil {
		m.t.Errorf("WriteString: %v", err)
	}
	if err := f.Sync(); err != nil {
		m.t.Errorf("Sync: %v", err)
	}
	if text := m.content("open"); text != "before after" {
		m.t.Errorf("%q", text)
	}
	m.writeAndRead("second")
	if text, err := os.ReadFile(m.path("etc/default/" + m.server.name)); err != nil || !strings.Contains(string(text), "--log-format json") {
		m.t.Errorf("configuration that was changed is gone: %q, %v", text, err)
	}
}

// key returns the names and contents of the server's key files. They must outlive an upgrade of the
// package.
func (m *system) key() map[string]string {
	m.t.Helper()
	all := map[string]string{}
	names, err := filepath.Glob(m.path("var/lib/nfsrdma/*key*"))
	if err != nil {
		m.t.Fatalf("filepath.Glob: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			m.t.Fatalf("os.ReadFile: %v", err)
		}
		all[filepath.Base(name)] = string(text)
	}
	return all
}

// mountProcesses returns the processes of the client's program, in any version.
func (m *system) mountProcesses() (pids []string) {
	m.t.Helper()
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		m.t.Fatalf("filepath.Glob: %v", err)
	}
	for _, exe := range exes {
		if target, err := os.Readlink(exe); err == nil && strings.HasPrefix(target, m.path("usr/bin/nfsrdma")) {
			pids = append(pids, filepath.Base(filepath.Dir(exe)))
		}
	}
	return pids
}

// removeClient: a mount outlives its package, and can be ended.
func (m *system) removeClient() {
	m.t.Helper()
	m.apt("remove", "nfsrdma")
	if _, err := os.Lstat(m.path("usr/bin/nfsrdma")); err == nil {
		m.t.Error("the program is still there")
	}
	m.writeAndRead("third")
	m.do("umount", "/mnt/data")
	if list, err := os.ReadDir(m.path("mnt/data")); err != nil || len(list) > 0 {
		m.t.Errorf("%v, %v", list, err)
	}
}

// removeServer: the server is stopped, and its identity towards clients stays.
func (m *system) removeServer() {
	m.t.Helper()
	key := m.key()
	m.calls()
	m.apt("remove", m.server.name)
	if calls := m.calls(); !slices.Contains(calls, "stop "+m.server.name+".socket "+m.server.name+".service") {
		m.t.Errorf("the removal asks systemd for %q", calls)
	}
	if !maps.Equal(m.key(), key) {
		m.t.Error("the key of handles is gone with the package")
	}
	if _, err := os.Stat(m.path("etc/nfsrdma/" + m.exports)); err != nil {
		m.t.Errorf("os.Stat: %v", err)
	}
}

// files returns all names on the system with their content, without what apt and dpkg keep for
// themselves.
func (m *system) files() map[string]string {
	m.t.Helper()
	all := map[string]string{}
	for _, top := range []string{"etc", "usr", "var", "opt", "srv", "root", "home", "mnt"} {
		err := filepath.WalkDir(m.path(top), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(path, m.root)
			if slices.ContainsFunc([]string{"/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log/apt", "/var/log/dpkg.log", "/usr/bin/systemctl"},
				func(its string) bool { return name == its || strings.HasPrefix(name, its+"/") }) {
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			all[name] = info.Mode().String()
			if info.Mode().IsRegular() {
				all[name] += fmt.Sprint(" ", info.Size())
			}
			return nil
		})
		if err != nil {
			m.t.Fatalf("filepath.WalkDir: %v", err)
		}
	}
	return all
}

// nothingLeft compares the system with its state before any installation.
func (m *system) nothingLeft(before map[string]string) {
	m.t.Helper()
	after := m.files()
	for name, what := range after {
		if before[name] != what {
			m.t.Errorf("purged, and there is %s (%s), which was %q", name, what, before[name])
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			m.t.Errorf("purged, and %s, which was not of the packages, is gone", name)
		}
	}
	if len(before) < 1000 {
		m.t.Errorf("%d files", len(before))
	}
}
