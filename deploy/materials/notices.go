// The notices that licenses ask to be given along with a program: those of the toolchain and of each module in it.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// noticeName matches the files of a module's root that have its license, or what it wants to be passed on.
var noticeName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|unlicense)([-._].*)?$`)

// writeNotices writes the notices of a program to a file. A module without any is an error: it must not be given to others.
func writeNotices(name string, info *debug.BuildInfo) error {
	var out bytes.Buffer
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	if err := appendNotices(&out, "The Go programming language and its standard library, "+info.GoVersion, strings.TrimSpace(string(root))); err != nil {
		return err
	}
	dirs, err := moduleDirs()
	if err != nil {
		return err
	}
	for _, m := range info.Deps {
		if m.Replace != nil && m.Replace.Version == "" {
			continue // a directory of this repository, under its license
		}
		if err := appendNotices(&out, "Module "+used(m).Path+" "+used(m).Version, dirs[m.Path]); err != nil {
			return err
		}
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}

// moduleDirs is where the modules of the build list are, by path.
func moduleDirs() (map[string]string, error) {
	cmd := exec.Command("go", "list", "-m", "-json=Path,Dir", "all")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	dirs := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var m struct{ Path, Dir string }
		if err := d.Decode(&m); err != nil {
			return nil, err
		}
		dirs[m.Path] = m.Dir
	}
	return dirs, nil
}

// appendNotices adds what stands in a directory under a heading.
func appendNotices(out *bytes.Buffer, heading, dir string) error {
	found := 0
	if dir != "" {
		list, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range list {
			if !noticeName.MatchString(e.Name()) || e.IsDir() {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			found++
			fmt.Fprintf(out, "%s\n%s: %s\n\n%s\n\n", strings.Repeat("=", 78), heading, e.Name(), bytes.TrimSpace(text))
		}
	}
	if found == 0 {
		return fmt.Errorf("%s: there is no license in %q", heading, dir)
	}
	return nil
}
