// Our client and our server, as programs, with a validator between them.

package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

func build(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", path, "github.com/nfsrdma/nfsrdma/cmd/"+name).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, out)
	}
	return path
}

// serve runs nfsrdmad over dir until the test ends, and returns its RDMA port.
func serve(t *testing.T, bin, dir string, args ...string) int {
	t.Helper()
	port := machine.Port(t)
	cmd := exec.Command(bin, append([]string{"serve", dir + "=/export", "--addr", "127.0.0.1", "--no-root-squash", "--rdma", "iwarp", "--rdma-port", fmt.Sprint(port), "--tcp-port", "0"}, args...)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("nfsrdmad: %v\n%s", err, log.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			c.Close()
			return port
		}
	}
	t.Fatal("nfsrdmad does not answer")
	return 0
}

func TestOurTrafficIsLawful(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the programs")
	}
	server, client := build(t, "nfsrdmad"), build(t, "nfsrdma")
	for _, crc := range []string{"on", "off"} {
		t.Run("crc-"+crc, func(t *testing.T) {
			export, local, back := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "back")
			for _, n := range []int{0, 1, 3, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65537, 1<<20 - 1, 3 << 20} {
				b := make([]byte, n)
				rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(b)
				must.Succeed(t, os.WriteFile(filepath.Join(local, fmt.Sprint(n)), b, 0o644))
			}
			for i, target := range []string{"x", strings.Repeat("t", 1025), strings.Repeat("v", 4000)} {
				must.Succeed(t, os.Symlink(target, filepath.Join(local, fmt.Sprintf("link-%d", i))))
			}
			path := filepath.Join(t.TempDir(), "ours.pcap")
			f, err := os.Create(path)
			if err != nil {
				t.Fatalf("os.Create: %v", err)
			}
			defer f.Close()
			capture := tap.NewCapture(f)
			tp, err := tap.New("127.0.0.1", fmt.Sprintf("127.0.0.1:%d", serve(t, server, export, "--crc", crc)), capture)
			if err != nil {
				t.Fatalf("New: %v", err)
			}
			defer tp.Close()
			url := fmt.Sprintf("nfsrdma://127.0.0.1:%d/export/", tp.Port())
			for _, args := range [][]string{
				{"cp", "-r", local, url + "tree"}, {"cp", "-r", url + "tree", back}, {"ls", "-l", url + "tree"},
				{"mv", url + "tree/0", url + "tree/nothing"}, {"rm", "-r", url + "tree"},
			} {
				if out, err := exec.Command(client, append(args, "--crc", crc)...).CombinedOutput(); err != nil {
					t.Fatalf("nfsrdma %s: %v\n%s", args[0], err, out)
				}
			}
			if out, err := exec.Command("diff", "-r", "--no-dereference", local, back).CombinedOutput(); err != nil {
				t.Errorf("the copy differs: %s", out)
			}
			tp.Close()
			if err := capture.Close(); err != nil {
				t.Fatalf("capture.Close: %v", err)
			}
			r := Check(t, path, Want{CRC: crc == "on", ServerOurs: true, ClientOurs: true})
			if r.Writes == 0 || r.Reads == 0 || r.ReadChunks == 0 || r.WriteChunks == 0 {
				t.Errorf("hardly anything happened: %+v", r)
			}
			if dir := os.Getenv("NFSRDMA_CAPTURES"); dir != "" {
				b, _ := os.ReadFile(path)
				os.WriteFile(filepath.Join(dir, "ours-crc-"+crc+".pcap"), b, 0o644)
			}
		})
	}
}
