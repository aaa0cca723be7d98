// nfs-ganesha: its configuration, and rpcbind, which nfs-ganesha needs to start.

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Ports of nfs-ganesha, in a separate network namespace.
const (
	ganeshaPort  = "32049"
	ganeshaMount = "32048"
)

// ganeshaConfig makes nfs-ganesha serve one directory over TCP with version 3, like our server, and
// nothing else. All other settings are the defaults that its users have.
const ganeshaConfig = `NFS_CORE_PARAM {
	Protocols = 3;
	NFS_Port = ` + ganeshaPort + `;
	MNT_Port = ` + ganeshaMount + `;
	Enable_NLM = false;
	Enable_RQUOTA = false;
	Plugins_Dir = "%s";
}
NFS_KRB5 { Active_krb5 = false; }
EXPORT {
	Export_Id = 1;
	Path = "%s";
	Pseudo = /bench;
	Access_Type = RW;
	Squash = No_Root_Squash;
	SecType = sys;
	Protocols = 3;
	Transports = TCP;
	FSAL { Name = VFS; }
}
LOG { Default_Log_Level = EVENT; }
`

// startGanesha starts rpcbind and nfs-ganesha in the foreground, on our served directory.
func (b *bed) startGanesha() error {
	plugins, _ := filepath.Glob("/usr/lib/*/ganesha")
	if len(plugins) == 0 {
		return errors.New("nfs-ganesha has no file systems: install nfs-ganesha-vfs, or use -ganesha=false")
	}
	if err := b.start(exec.Command("rpcbind", "-f")); err != nil {
		return fmt.Errorf("nfs-ganesha needs rpcbind: %w", err)
	}
	if err := b.await("rpcbind", "127.0.0.1:111"); err != nil {
		return err
	}
	file := filepath.Join(b.base, "ganesha.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, ganeshaConfig, plugins[0], b.served), 0o600); err != nil {
		return err
	}
	pid, err := b.startServer("ganesha.nfsd", "-F", "-f", file, "-p", "/run/ganesha.pid", "-L", filepath.Join(b.base, "ganesha.nfsd.log"))
	if err != nil {
		return err
	}
	b.ganesha = &server{pid: pid, tcp: b.host + ":" + ganeshaPort, export: b.served, mountPort: ganeshaMount}
	return b.await("ganesha.nfsd", b.ganesha.tcp)
}
