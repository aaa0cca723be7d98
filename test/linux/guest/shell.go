// An interactive guest on the terminal.

package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Shell runs a guest with this terminal as the console until the guest's shell ends. Control-A X
// kills the guest.
func Shell(cfg Config) error {
	dir, err := os.MkdirTemp("", "nfsrdma-guest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Mkdir(filepath.Join(dir, "share"), 0o755); err != nil {
		return err
	}
	accel := "tcg,thread=multi"
	if useKVM() {
		accel = "kvm"
	}
	cfg.shell = true
	net, err := newNetwork(cfg)
	if err != nil {
		return err
	}
	defer net.end()
	cmd := exec.Command(qemu, arguments(cfg, net, dir, accel)...)
	cmd.ExtraFiles = net.files()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}
