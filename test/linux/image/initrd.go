// Fills the initramfs: programs, their libraries, kernel modules, our scripts.

package image

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

var emptyDirs = []string{
	"proc", "sys", "dev", "run", "tmp", "mnt", "export", "share", "root", "var/run", "usr/share",
	"var/lib/nfs/rpc_pipefs", "var/lib/nfs/v4recovery",
}

// libDirs of a sysroot are searched in this order.
var libDirs = []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib"}

type initrd struct {
	*archive
	sysroot string
	libs    string // the guest's directory of libraries
}

func (b *builder) writeInitrd(sysroot, linux string, siw siwModules) error {
	f, err := os.Create(filepath.Join(b.dir, "initramfs.cpio"))
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	in := &initrd{archive: newArchive(w), sysroot: sysroot, libs: libDirs[0]}
	for _, d := range emptyDirs {
		in.dir(d)
	}
	if err := in.scripts(); err != nil {
		return err
	}
	if err := in.programs(); err != nil {
		return err
	}
	if err := b.modules(in, linux, siw); err != nil {
		return err
	}
	if err := in.busybox(b); err != nil {
		return err
	}
	if err := in.close(); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// scripts adds the files of rootfs/ under their paths; the files in init and bin are executable.
func (in *initrd) scripts() error {
	in.link("etc/mtab", "/proc/mounts")
	for _, name := range []string{"etc/exports", "var/lib/nfs/etab", "var/lib/nfs/rmtab"} {
		in.file(name, 0o644, nil)
	}
	return fs.WalkDir(rootfs, "rootfs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := rootfs.ReadFile(name)
		in.file(strings.TrimPrefix(name, "rootfs/"), 0o755, text)
		return err
	})
}

func (in *initrd) programs() error {
	for _, name := range programs {
		if err := in.program(name, name); err != nil {
			return err
		}
	}
	for _, name := range rdmaTool {
		if _, err := os.Stat(filepath.Join(in.sysroot, name)); err == nil {
			if err := in.program(name, "sbin/rdma"); err != nil {
				return err
			}
			break
		}
	}
	for _, lib := range dlopened {
		if err := in.library(lib); err != nil {
			return err
		}
	}
	for _, name := range plugins {
		text, err := os.ReadFile(filepath.Join(in.sysroot, name))
		if err != nil {
			return err
		}
		in.file(name, 0o644, text)
	}
	for _, applet := range []string{"modprobe", "insmod", "rmmod", "lsmod"} {
		in.link("sbin/"+applet, "../bin/kmod")
	}
	loader, err := os.ReadFile(filepath.Join(in.sysroot, "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"))
	in.file("lib64/ld-linux-x86-64.so.2", 0o755, loader)
	if err != nil {
		return err
	}
	netconfig, err := os.ReadFile(filepath.Join(in.sysroot, "etc/netconfig"))
	in.file("etc/netconfig", 0o644, netconfig)
	return err
}

func (in *initrd) program(from, to string) error {
	file := filepath.Join(in.sysroot, from)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	in.file(to, 0o755, text)
	return in.needed(file)
}

func (in *initrd) needed(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, lib := range libs {
		if err := in.library(lib); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

func (in *initrd) library(lib string) error {
	to := path.Join(in.libs, lib)
	if in.has(to) || in.has(path.Join("lib64", lib)) {
		return nil
	}
	for _, d := range libDirs {
		file := filepath.Join(in.sysroot, d, lib)
		if text, err := os.ReadFile(file); err == nil {
			in.file(to, 0o755, text)
			return in.needed(file)
		}
	}
	return fmt.Errorf("no package of the recipe holds %s", lib)
}

// busybox adds the applets whose names no other program has.
func (in *initrd) busybox(b *builder) error {
	file := filepath.Join(in.sysroot, "bin/busybox")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	in.file("bin/busybox", 0o755, text)
	list, err := exec.CommandContext(b.ctx, file, "--list").Output()
	if err != nil {
		return err
	}
	for _, applet := range strings.Fields(string(list)) {
		if !in.has("bin/"+applet) && !in.has("sbin/"+applet) && !in.has("usr/bin/"+applet) && !in.has("usr/sbin/"+applet) {
			in.link("bin/"+applet, "/bin/busybox")
		}
	}
	return nil
}
