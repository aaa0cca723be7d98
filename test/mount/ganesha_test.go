// nfs-ganesha as the server of our mounts: the same checks as with our own, over TCP.

package mount

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// ganeshaConfig serves %[1]s as /export, by NFSv3 over TCP alone; %[2]s is its own directory.
const ganeshaConfig = `
NFS_CORE_PARAM {
	Protocols = 3;
	NFS_Port = 2049;
	MNT_Port = 20048;
	Enable_UDP = false;
	Enable_NLM = true;
	Enable_RQUOTA = false;
	mount_path_pseudo = true;
}
NFSV4 { RecoveryRoot = "%[2]s"; Graceless = true; }
EXPORT {
	Export_Id = 1;
	Path = "%[1]s";
	Pseudo = "/export";
	Access_Type = RW;
	Squash = No_Root_Squash;
	SecType = sys;
	Protocols = 3;
	Transports = TCP;
	FSAL { Name = VFS; }
}
`

// startGanesha starts the server in its own network and process namespaces: it does not start
// without an rpcbind, which has a port and a socket that the machine may use. It locks nothing for
// clients that no status monitor watches.
func startGanesha(t *testing.T) peer {
	t.Helper()
	dir, served := tempDir(t, "ganesha"), tempDir(t, "served")
	must.Succeed(t, os.Chmod(served, 0o777))
	conf, log := filepath.Join(dir, "ganesha.conf"), filepath.Join(dir, "log")
	must.Succeed(t, os.WriteFile(conf, fmt.Appendf(nil, ganeshaConfig, served, dir), 0o644))
	cmd := exec.Command("unshare", "-n", "-m", "-p", "--fork", "--kill-child", "sh", "-euc",
		leaveMounts+`mount -t tmpfs none /run; mount -t tmpfs none /var/lib/nfs; mkdir /var/lib/nfs/sm /var/lib/nfs/sm.bak; ip link set lo up; rpcbind; rpc.statd --no-notify; exec ganesha.nfsd -F -f "$1" -L "$2" -p "$3" -N NIV_EVENT`,
		"sh", conf, log, filepath.Join(dir, "pid"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	logged := func() string {
		b, _ := os.ReadFile(log)
		more, _ := os.ReadFile(out.Name())
		return string(b) + string(more)
	}
	t.Cleanup(func() {
		if len(gone) == 0 { // otherwise its number may be another process's
			killConfined(cmd)
		}
		<-gone
		if t.Failed() {
			t.Logf("the log of nfs-ganesha:\n%s", lastLines(logged(), 30))
		}
	})
	waitFor(t, "nfs-ganesha", func() bool {
		select {
		case err := <-gone:
			gone <- err
			t.Fatalf("nfs-ganesha did not start: %v\n%s", err, lastLines(logged(), 30))
		default:
		}
		return strings.Contains(logged(), "NFS SERVER INITIALIZED")
	})
	return peer{
		name: "ganesha", host: "127.0.0.1", export: "/export", options: "proto=tcp,port=2049,mountport=20048",
		by:    []string{"nsenter", "--net=/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/net"},
		model: []string{"no-link-times"},
	}
}

// TestGanesha: programs find the same on an export from nfs-ganesha as on ours.
func TestGanesha(t *testing.T) {
	needMounts(t)
	need(t, "ganesha.nfsd", "rpcbind", "rpc.statd", "unshare", "nsenter", "ip")
	startGanesha(t).check(t)
}
