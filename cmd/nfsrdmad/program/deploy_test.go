// The files in deploy other than the server's units: the image, mount units, the firewall, kernel
// settings.

package program

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// An instruction is a line of a Containerfile, with its words.
type instruction struct {
	name string
	args []string
}

// containerfile parses deploy's Containerfile, which has no continuation lines.
func containerfile(t *testing.T) (list []instruction) {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/Containerfile")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		i := instruction{name, strings.Fields(rest)}
		if strings.HasPrefix(rest, "[") {
			i.args = nil
			if err := json.Unmarshal([]byte(rest), &i.args); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		list = append(list, i)
	}
	return list
}

// TestContainerfile: the copied files exist, the programs are built with go.mod's toolchain, and
// the commands can run.
func TestContainerfile(t *testing.T) {
	built := map[string]bool{}
	var bases []string
	for _, i := range containerfile(t) {
		switch words := strings.Join(i.args, " "); {
		case i.name == "FROM":
			bases = append(bases, i.args[0])
		case i.name == "RUN" && strings.HasPrefix(words, "CGO_ENABLED=0 go build"):
			for _, arg := range i.args {
				if dir, ok := strings.CutPrefix(arg, "./"); ok {
					built["/out/"+filepath.Base(dir)] = true
					if _, err := os.Stat(filepath.Join("../../..", dir, "main.go")); err != nil {
						t.Errorf("os.Stat: %v", err)
					}
				}
			}
		case i.name == "COPY":
			sources := i.args[:len(i.args)-1]
			for _, s := range sources {
				_, err := os.Stat(filepath.Join("../../..", s))
				switch {
				case strings.HasPrefix(s, "--"):
				case sources[0] == "--from=build" && !built[s]:
					t.Errorf("%s is copied, and not built", s)
				case sources[0] != "--from=build" && err != nil:
					t.Error(err)
				}
			}
		}
	}
	mod, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if len(bases) != 2 || bases[0] != "docker.io/library/golang:"+string(version[1]) || bases[1] != "scratch" || len(built) != 2 {
		t.Errorf("from %q, for Go %s, built %v", bases, version[1], built)
	}
}

// TestContainer: the image's command serves files as the image's user, without privileges or
// writable files. It uses the image's ports, so it needs a network of its own.
func TestContainer(t *testing.T) {
	if !machine.Apart(t, "setpriv") {
		return
	}
	var args, user []string
	exposed := map[string]bool{}
	for _, i := range containerfile(t) {
		switch i.name {
		case "USER":
			user = strings.Split(i.args[0], ":")
		case "ENTRYPOINT":
			args = append(args, i.args[1:]...)
		case "CMD":
			args = append(args, i.args...)
		case "EXPOSE":
			for _, p := range i.args {
				exposed[p] = true
			}
		}
	}
	program := "/run/nfsrdmad.test" // a path that other users can reach
	copyFile(t, os.Args[0], program)
	cmd := exec.Command("setpriv", "--reuid="+user[0], "--regid="+user[1], "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs",
		program, "-test.run=^TestServeChild$")
	cmd.Env = []string{childEnv + "=" + strings.Join(args, "\n"), controlEnv + "=" + os.Getenv(controlEnv)}
	cmd.Dir = "/"
	log := new(sharedBuffer)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log)
		}
	}()
	for port, o := range map[string]nfsclient.Options{"2049/tcp": {Transport: nfsclient.TCP}, "20049/tcp": {}} {
		number, _, _ := strings.Cut(port, "/")
		if !exposed[port] {
			t.Errorf("port %s is not exposed", port)
		}
		awaitPort(t, "127.0.0.1:"+number)
		tree := mounted(t, "127.0.0.1:"+number, "/memory", o)
		if err := tree.WriteFile(t.Context(), "f", []byte("data"), 0o644); err != nil {
			t.Errorf("WriteFile: %v", err)
		}
		if data, err := tree.ReadFile(t.Context(), "f"); string(data) != "data" {
			t.Errorf("%q, %v", data, err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatalf("os.Open: %v", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatalf("os.OpenFile: %v", err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatalf("io.Copy: %v", err)
	}
	if err := out.Close(); err != nil {
		t.Fatalf("out.Close: %v", err)
	}
}

// TestMountUnits: systemd accepts the mount units, and their options are options of nfsrdma mount.
func TestMountUnits(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/mnt-data.mount")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	given := regexp.MustCompile(`(?m)^Options=(.*)$`).FindSubmatch(text)
	if given == nil {
		t.Fatal("no Options=")
	}
	if _, err := mountopt.Parse([]string{string(given[1])}, false); err != nil || !strings.Contains(string(given[1]), "_netdev") {
		t.Errorf("%s: %v", given[1], err)
	}
	machine.NeedRoot(t, "runs services as the system does: needs root", "systemd-analyze")
	cmd := exec.Command("systemd-analyze", "verify", "--man=no", "mnt-data.mount", "mnt-data.automount")
	cmd.Dir = "../../../deploy"
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFirewall: nft accepts the rules, also a second time. Only hosts in the sets reach the ports.
func TestFirewall(t *testing.T) {
	if !machine.Apart(t, "nft") {
		return
	}
	text, err := os.ReadFile("../../../deploy/nfsrdma.nft")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	rules := strings.NewReplacer("127.0.0.0/8, 10.0.0.0/24", "127.0.0.1", "#ip saddr", "ip saddr", "#tcp", "tcp").Replace(string(text))
	for range 2 {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	defer serveArgs(t, "serve", "--memory", "--addr", "0.0.0.0", "--rdma", "iwarp", "--ephemeral-key", "--rpcbind", "serve", "--metrics-addr", "0.0.0.0:9049",
		"--log-level", "error")()
	for _, port := range []string{"2049", "20049", "111", "9049"} {
		awaitPort(t, "127.0.0.1:"+port)
		// The rules drop the packets, so a longer timeout would not bring an answer either.
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 500 * time.Millisecond}
		if c, err := d.DialContext(context.Background(), "tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			t.Errorf("port %s is open to all", port)
		}
	}
}

// TestSysctl: the kernel has each setting in deploy's file.
func TestSysctl(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/nfsrdma.sysctl.conf")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	settings := regexp.MustCompile(`(?m)^([a-z_.]+) = \d+$`).FindAllSubmatch(text, -1)
	if len(settings) < 2 {
		t.Errorf("%d settings", len(settings))
	}
	for _, m := range settings {
		if _, err := os.Stat("/proc/sys/" + strings.ReplaceAll(string(m[1]), ".", "/")); err != nil {
			t.Errorf("os.Stat: %v", err)
		}
	}
}
