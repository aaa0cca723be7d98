// The images of deploy, built and run by podman as in docs/deploy.md.

package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// podmanEnv names the directory that podman uses for its storage, for this test only.
const podmanEnv = "NFSRDMA_TEST_PODMAN"

// podmanConf makes podman keep everything in one directory, and copy files: overlays are not always
// available.
const podmanConf = "[storage]\ndriver = \"vfs\"\nrunroot = \"%[1]s/run\"\ngraphroot = \"%[1]s/root\"\n"

// buildLimit limits how long podman may build the programs, even if no package is compiled yet.
const buildLimit = 15 * time.Minute

// podman runs a podman command and returns its output.
func podman(ctx context.Context, args ...string) (string, error) {
	at := os.Getenv(podmanEnv)
	// runc replaces crun, podman's default, because this crun does not support version 1 of control
	// groups.
	cmd := exec.CommandContext(ctx, "podman", append([]string{"--runtime", "runc"}, args...)...)
	cmd.Env = append(os.Environ(), "CONTAINERS_STORAGE_CONF="+filepath.Join(at, "storage.conf"))
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("podman %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func mustPodman(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildLimit)
	defer cancel()
	out, err := podman(ctx, args...)
	if err != nil {
		t.Fatalf("podman: %v", err)
	}
	return out
}

// awaitPodman returns when no podman process is left: the process that watches a container cleans
// up asynchronously.
func awaitPodman(t *testing.T, dir string) {
	t.Helper()
	var left []string
	for range 3000 {
		if left = startedIn(dir); len(left) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("podman is still at work:", left)
}

// startedIn returns the processes with dir as storage: this test's processes, and conmon, which
// watches a container. conmon has dir only in its arguments.
func startedIn(dir string) (found []string) {
	for _, of := range []string{"environ", "cmdline"} {
		all, _ := filepath.Glob("/proc/[0-9]*/" + of)
		for _, name := range all {
			if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), dir) {
				found = append(found, name)
			}
		}
	}
	return found
}

// TestImage: podman builds the images without a registry, and runs them without privileges on a
// read-only file system. One container serves memory; one serves a directory as a user, where
// handles survive the container; one serves a JuiceFS volume.
func TestImage(t *testing.T) {
	if os.Getenv(podmanEnv) == "" {
		machine.NeedRoot(t, "runs services as the system does: needs root", "podman", "runc", "busybox")
		dir := t.TempDir()
		t.Cleanup(func() { awaitPodman(t, dir) }) // runs before dir is removed
		t.Setenv(podmanEnv, dir)
		put(t, filepath.Join(dir, "storage.conf"), fmt.Sprintf(podmanConf, dir))
		buildImages(t, dir)
	}
	if !machine.Apart(t) {
		return
	}
	t.Run("memory", imageInMemory)
	t.Run("directory", imageOfDirectory)
	t.Run("volume", imageOfVolume)
}

// buildImages builds the images from this machine's files. A shell and this machine's Go with its
// caches replace the golang image. As in all tests of JuiceFS, services that the tests do not use
// are left out.
func buildImages(t *testing.T, dir string) {
	t.Helper()
	goEnv := func(name string) string {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatalf("go: %v", err)
		}
		return strings.TrimSpace(string(out))
	}
	base := filepath.Join(dir, "base")
	for _, name := range []string{"bin", "etc/ssl/certs", "tmp", "go/pkg/mod", "root/.cache/go-build", "usr/local/go"} {
		must.Succeed(t, os.MkdirAll(filepath.Join(base, name), 0o755))
	}
	shell, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatalf("exec.LookPath: %v", err)
	}
	for _, name := range []string{"sh", "cat", "mkdir"} {
		copyFile(t, shell, filepath.Join(base, "bin", name))
	}
	copyFile(t, "/etc/ssl/certs/ca-certificates.crt", filepath.Join(base, "etc/ssl/certs/ca-certificates.crt"))
	put(t, filepath.Join(dir, "Base"), "FROM scratch\nCOPY base /\nENV HOME=/root GOPATH=/go PATH=/usr/local/go/bin:/bin\n")
	mustPodman(t, "build", "--isolation", "chroot", "-f", filepath.Join(dir, "Base"), "-t", containerfile(t)[0].args[0], dir)
	tags, err := os.ReadFile("../../../nfsserver/juicefs/tags")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for _, image := range [][]string{{"Containerfile", "nfsrdmad"}, {"Containerfile.juicefs", "nfsrdmad-juicefs", "--build-arg", "JUICEFS_TAGS=" + strings.TrimSpace(string(tags))}} {
		args := []string{"build", "--isolation", "chroot", "--pull=never", "--network", "host", "-v", goEnv("GOROOT") + ":/usr/local/go:ro",
			"-v", goEnv("GOMODCACHE") + ":/go/pkg/mod", "-v", goEnv("GOCACHE") + ":/root/.cache/go-build",
			"--env", "GOPROXY=" + goEnv("GOPROXY"), "-f", "../../../deploy/" + image[0], "-t", image[1]}
		mustPodman(t, append(append(args, image[2:]...), "../../..")...)
	}
}

// runImage runs an image with further arguments, as in docs/deploy.md, but in the test's network
// with ports of its own.
func runImage(t *testing.T, args ...string) {
	t.Helper()
	var files syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	// Without these limits podman asks for more than some machines have.
	mustPodman(t, append([]string{"run", "-d", "--name", "served", "--network", "host", "--read-only", "--cap-drop", "all",
		"--ulimit", fmt.Sprintf("nofile=%[1]d:%[1]d", files.Max), "--ulimit", "nproc=1000:1000"}, args...)...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
		defer cancel()
		if t.Failed() {
			out, _ := podman(ctx, "logs", "served")
			t.Log(out)
		}
		if _, err := podman(ctx, "rm", "-f", "-t", "10", "served"); err != nil {
			t.Errorf("podman: %v", err)
		}
	})
	awaitPort(t, "127.0.0.1:2049")
	awaitPort(t, "127.0.0.1:20049")
}

// unprivileged checks that the server in the container runs as a user, without any capability.
func unprivileged(t *testing.T, name string, uid int) {
	t.Helper()
	pid := strings.TrimSpace(mustPodman(t, "inspect", "--format", "{{.State.Pid}}", "served"))
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	name = name[:min(len(name), 15)] // the kernel truncates names to 15 bytes
	for _, want := range []string{"Name:\t" + name + "\n", fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", uid), "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n",
		"CapBnd:\t0000000000000000\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the server's process has not %q:\n%s", want, text)
		}
	}
}

// nobody is the images' user.
const nobody = 65534

func imageInMemory(t *testing.T) {
	runImage(t, "nfsrdmad")
	unprivileged(t, "nfsrdmad", nobody)
	for addr, o := range map[string]nfsclient.Options{"127.0.0.1:2049": {Transport: nfsclient.TCP}, "127.0.0.1:20049": {}} {
		tree := mounted(t, addr, "/memory", o)
		if err := tree.WriteFile(t.Context(), "f", []byte(addr), 0o644); err != nil {
			t.Errorf("WriteFile: %v", err)
		}
		if data, err := tree.ReadFile(t.Context(), "f"); string(data) != addr {
			t.Errorf("%q, %v", data, err)
		}
	}
	if out := mustPodman(t, "exec", "served", "nfsrdma", "ping", "127.0.0.1"); !strings.Contains(out, "round trips") {
		t.Error(out)
	}
}

func imageOfDirectory(t *testing.T) {
	const uid = 1000
	dir := filepath.Join(os.Getenv(podmanEnv), "data")
	must.Succeed(t, os.Mkdir(dir, 0o755))
	must.Succeed(t, os.Chown(dir, uid, uid))
	args := []string{"--user", "1000:1000", "-v", dir + ":/srv/data", "-v", "nfs-state:/state", "nfsrdmad", "--state-dir", "/state", "/srv/data"}
	o := nfsclient.Options{Transport: nfsclient.TCP, Cred: &transport.Cred{Flavor: oncrpc.FlavorSys, UID: uid, GID: uid}}
	var handle nfs3.FH
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			runImage(t, args...)
			unprivileged(t, "nfsrdmad", uid)
			tree := mounted(t, "127.0.0.1:2049", "/srv/data", o)
			name := fmt.Sprint("f", i)
			if err := tree.WriteFile(t.Context(), name, []byte("data"), 0o644); err != nil {
				t.Fatalf("WriteFile: %v", err)
			}
			fi, err := os.Stat(filepath.Join(dir, name))
			if err != nil || fi.Sys().(*syscall.Stat_t).Uid != uid {
				t.Errorf("%+v, %v", fi, err)
			}
			if root := tree.Root(); i > 0 && root != handle {
				t.Errorf("the handle of the export is another one in a new container: %v, %v", handle, root)
			} else {
				handle = root
			}
		})
	}
}

// imageOfVolume: volume and state belong to the image's user, who has created them. A container
// that is killed and restarted still has the committed data, under the clients' handles.
func imageOfVolume(t *testing.T) {
	runImage(t, "--read-only-tmpfs=false", "-v", "juicefs-volume:/volume", "-v", "juicefs-state:/state", "nfsrdmad-juicefs")
	unprivileged(t, "nfsrdmad-juicefs", nobody)
	for _, name := range []string{"juicefs-volume", "juicefs-state"} {
		at := strings.TrimSpace(mustPodman(t, "volume", "inspect", "--format", "{{.Mountpoint}}", name))
		list, err := os.ReadDir(at)
		fi, statErr := os.Stat(at)
		if err != nil || statErr != nil || fi.Sys().(*syscall.Stat_t).Uid != nobody || len(list) == 0 {
			t.Errorf("%s: %v, %+v, %v, %v", name, list, fi, err, statErr)
		}
	}
	tree := mounted(t, "127.0.0.1:2049", "/volume", nfsclient.Options{Transport: nfsclient.TCP, CallTimeout: transport.Hard})
	if err := tree.WriteFile(t.Context(), "f", []byte("data"), 0o644); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	mustPodman(t, "kill", "served")
	mustPodman(t, "wait", "served")
	mustPodman(t, "start", "served")
	if data, err := tree.ReadFile(t.Context(), "f"); string(data) != "data" {
		t.Errorf("after the restart: %q, %v", data, err)
	}
}
