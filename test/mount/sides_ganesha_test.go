// nfs-ganesha among the servers that are asked: the same rules in its own grammar.

package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// ganeshaCore is the configuration besides the exports; %[1]s is its own directory.
const ganeshaCore = `
NFS_CORE_PARAM { Protocols = 3; NFS_Port = 2049; MNT_Port = 20048; Enable_NLM = true; Enable_RQUOTA = false; mount_path_pseudo = false; }
NFSV4 { RecoveryRoot = "%[1]s"; Graceless = true; }
EXPORT_DEFAULTS { Protocols = 3; Transports = TCP; SecType = sys; Access_Type = NONE; }
`

// A ganeshaRule is one EXPORT with one CLIENT.
type ganeshaRule struct{ dir, client, options string }

// ganeshaExports returns rules in nfs-ganesha's grammar. An export keeps its number as long as it
// exists.
func ganeshaExports(base string, rules []ganeshaRule) string {
	var b strings.Builder
	for _, r := range rules {
		id := 1 + strings.Index("open ro squash all other gone fixed comes cross plain", r.dir)
		fmt.Fprintf(&b, "EXPORT { Export_Id = %d; Path = %q; Pseudo = \"/%s\"; FSAL { Name = VFS; } CLIENT { Clients = %s; %s } }\n",
			id, filepath.Join(base, r.dir), r.dir, r.client, r.options)
	}
	return b.String()
}

// TestSidesGanesha asks nfs-ganesha.
func TestSidesGanesha(t *testing.T) {
	base := needSides(t, "ganesha.nfsd", "rpcbind")
	const us, root = "127.0.0.1", "Squash = No_Root_Squash;"
	stay := []ganeshaRule{
		{"open", us, "Access_Type = RW; " + root}, {"ro", us, "Access_Type = RO; " + root}, {"squash", us, "Access_Type = RW; Squash = Root_Squash;"},
		{"all", us, "Access_Type = RW; Squash = All_Squash; Anonymous_Uid = 2000; Anonymous_Gid = 2000;"}, {"other", "192.0.2.7", "Access_Type = RW;"},
		{"cross", us, "Access_Type = RW; " + root}, {"plain", us, "Access_Type = RW; " + root},
	}
	dir := tempDir(t, "ganesha")
	conf := filepath.Join(dir, "ganesha.conf")
	rules := func(more ...ganeshaRule) {
		text := fmt.Sprintf(ganeshaCore, dir) + ganeshaExports(base, append(stay[:len(stay):len(stay)], more...))
		must.Succeed(t, os.WriteFile(conf, []byte(text), 0o644))
	}
	rules(ganeshaRule{"gone", us, "Access_Type = RW; " + root}, ganeshaRule{"fixed", us, "Access_Type = RW; " + root})
	c := confine(t, `base="$3"; `+sidesMounts+`; cd /; mount -t tmpfs none /var/lib/nfs; mkdir /var/lib/nfs/sm /var/lib/nfs/sm.bak; rpcbind; rpc.statd --no-notify; exec ganesha.nfsd -F -f "$1" -L /dev/stderr -p "$2" -N NIV_EVENT`, "NFS SERVER INITIALIZED", conf, filepath.Join(dir, "pid"), base)
	s := &subject{name: "ganesha", peer: peer{host: us, by: c.by()}, port: "2049", mnt: "20048", base: base, client: us}
	s.change = func() string {
		said := c.remount(t, base, "umount -l")
		rules(ganeshaRule{"comes", us, "Access_Type = RW; " + root}, ganeshaRule{"fixed", us, "Access_Type = RO; " + root})
		c.signal(t, syscall.SIGHUP)
		waitFor(t, "the new rules", func() bool { return strings.Contains(c.logged(), "Reread exports complete") })
		return said
	}
	s.ask(t)
}
