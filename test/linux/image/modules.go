// Kernel modules: the selection, their dependencies, and modprobe's index.

package image

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// modules puts the stock siw driver under extra/, for modprobe, and the driver without the race at
// /harness/siw-fixed.ko, to be loaded by hand.
func (b *builder) modules(in *initrd, linux string, siw siwModules) error {
	tree := filepath.Join(linux, "lib/modules", b.release)
	if _, err := os.Stat(tree); err != nil {
		tree = filepath.Join(linux, "usr/lib/modules", b.release)
	}
	// depmod searches the stock and the siw modules below one lib/modules.
	base := filepath.Join(b.work, "modules")
	want := filepath.Join(base, "lib/modules", b.release)
	if err := os.MkdirAll(filepath.Join(want, "extra"), 0o755); err != nil {
		return err
	}
	all, err := findModules(tree)
	if err != nil {
		return err
	}
	if err := b.copyModules(all, want, siw.stock); err != nil {
		return err
	}
	for _, name := range []string{"modules.builtin", "modules.order", "modules.builtin.modinfo"} {
		if err := copyFile(filepath.Join(tree, name), filepath.Join(want, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if err := b.depmod(in.sysroot, base); err != nil {
		return err
	}
	fixed, err := os.ReadFile(siw.fixed)
	if err != nil {
		return err
	}
	in.file("harness/siw-fixed.ko", 0o644, fixed)
	return addTree(in, base)
}

// findModules maps a module's name, with underscores, to its file.
func findModules(tree string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(tree, func(file string, d fs.DirEntry, err error) error {
		if name, _, ok := strings.Cut(filepath.Base(file), ".ko"); ok && err == nil && !d.IsDir() {
			all[canonical(name)] = file
		}
		return err
	})
	return all, err
}

func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// copyModules unpacks the recipe's modules and their dependencies. A name without a file is built
// into this kernel, or has another name there. Boot errors in the guest show a missing module.
func (b *builder) copyModules(all map[string]string, dir, siw string) error {
	if err := copyFile(siw, filepath.Join(dir, "extra/siw.ko")); err != nil {
		return err
	}
	queue, err := dependencies(siw)
	if err != nil {
		return err
	}
	queue = append(queue, modules...)
	for done := map[string]bool{}; len(queue) > 0; queue = queue[1:] {
		name := canonical(queue[0])
		file := all[name]
		if done[name] || file == "" {
			continue
		}
		done[name] = true
		to := filepath.Join(dir, name+".ko")
		if err := b.unpackModule(file, to); err != nil {
			return err
		}
		more, err := dependencies(to)
		if err != nil {
			return err
		}
		queue = append(queue, more...)
	}
	return nil
}

func (b *builder) unpackModule(file, to string) error {
	switch filepath.Ext(file) {
	case ".ko":
		return copyFile(file, to)
	case ".xz":
		text, err := run(b.ctx, nil, "xz", "-dc", file)
		if err != nil {
			return err
		}
		return os.WriteFile(to, []byte(text), 0o644)
	}
	return fmt.Errorf("%s is packed in a way we do not know", file)
}

// dependencies returns the depends= and softdep= fields of a module.
func dependencies(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("%s is no kernel module", file)
	}
	text, err := section.Data()
	if err != nil {
		return nil, err
	}
	var names []string
	for field := range strings.SplitSeq(string(text), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			names = append(names, strings.Split(list, ",")...)
		}
	}
	return names, nil
}

// depmod runs the guest's kmod with its loader and libraries.
func (b *builder) depmod(sysroot, base string) error {
	libs := filepath.Join(sysroot, libDirs[0]) + ":" + filepath.Join(sysroot, libDirs[1])
	_, err := run(b.ctx, nil, filepath.Join(sysroot, "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
		"--argv0", "depmod", "--library-path", libs, filepath.Join(sysroot, "bin/kmod"), "-b", base, b.release)
	return err
}

func addTree(in *initrd, base string) error {
	return filepath.WalkDir(base, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(base, file)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		in.file(path.Clean(filepath.ToSlash(name)), 0o644, text)
		return err
	})
}
