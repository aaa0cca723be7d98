// Captures of protected traffic: names and data must not be readable.

package linux

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

// A name and a text that a capture is searched for.
const (
	hiddenName = "name-of-a-file"
	hiddenText = "text-in-a-file"
)

// recorded captures the traffic through a tap between listen and upstream while work uses the tap's
// port, and returns the capture's path.
func recorded(t *testing.T, listen, upstream string, work func(port int)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "capture.pcap")
	f, err := os.Create(path)
	must.Succeed(t, err)
	capture := tap.NewCapture(f)
	tp, err := tap.New(listen, upstream, capture)
	must.Succeed(t, err)
	work(tp.Port())
	tp.Close()
	must.Succeed(t, capture.Close(), f.Close())
	return path
}

// hides checks that a file's name and text are hidden on the way to our server, or not hidden if
// want is false. It searches the capture for both, and reads it with tshark.
func hides(t *testing.T, g *guest.Guest, s *server, p securePeer, proto, options string, want bool) {
	t.Helper()
	upstream := s.address(s.tcp)
	if proto == "rdma" {
		upstream = s.address(s.behind)
	}
	var port int
	path := recorded(t, g.Listen, upstream, func(at int) {
		p.tcp, p.rdma, port = at, at, at
		run(t, g, p.at(proto, options)+fmt.Sprintf("su u1000 -c 'echo %[1]s > /mnt/%[2]s && ls -l /mnt' && drop_caches && su u1000 -c 'cat /mnt/%[2]s; rm /mnt/%[2]s'; umount /mnt", hiddenText, hiddenName))
	})
	b, err := os.ReadFile(path)
	must.Succeed(t, err)
	for _, secret := range []string{hiddenName, hiddenText} {
		if hidden := !bytes.Contains(b, []byte(secret)); hidden != want {
			t.Errorf("%s over %s: %q is hidden: %v, want %v", options, proto, secret, hidden, want)
		}
	}
	out, err := exec.Command("tshark", "-r", path, "-d", fmt.Sprintf("tcp.port==%d,rpc", port), "-T", "fields", "-e", "nfs.name", "-e", "nfs.data", "-Y", "nfs").Output()
	must.Succeed(t, err)
	if names := strings.Join(strings.Fields(string(out)), " "); (names == "") != want && proto == "tcp" {
		t.Errorf("%s over %s: tshark shows %.200q, hidden: want %v", options, proto, names, want)
	}
}
