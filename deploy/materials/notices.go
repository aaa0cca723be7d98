// The notices that licenses require with a program: the toolchain's and each module's.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// noticeName matches files in a module's root with its license or with notices to pass on.
var noticeName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|unlicense)([-._].*)?$`)

// writeNotices writes a program's notices to a file. A module without notices is an error, because
// it must not be distributed.
func writeNotices(name string, info *debug.BuildInfo) error {
	var out bytes.Buffer
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	if err := appendNotices(&out, "The Go programming language and its standard library, "+info.GoVersion, strings.TrimSpace(string(root))); err != nil {
		return err
	}
	var missing error
	dirs, err := moduleDirs()
	if err != nil {
		return err
	}
	for _, m := range info.Deps {
		if local(m) {
			continue // under this repository's license
		}
		heading := "Module " + used(m).Path + " " + used(m).Version
		missing = errors.Join(missing, appendNotices(&out, heading, dirs[m.Path]))
	}
	if missing != nil {
		return missing
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}

// moduleDirs returns the directories of the build list's modules, by path.
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

// appendNotices adds a module's notices under a heading: the notices in its root directory, or
// below a root without notices.
func appendNotices(out *bytes.Buffer, heading, dir string) error {
	if dir == "" {
		return fmt.Errorf("%s: it is not in the module cache", heading)
	}
	names, err := noticesIn(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n%s: %s\n\n%s\n\n", strings.Repeat("=", 78), heading, name, bytes.TrimSpace(text))
	}
	if len(names) == 0 {
		return fmt.Errorf("%s: there is no license in %q", heading, dir)
	}
	return nil
}

// noticesIn returns a directory's notice files: those in the root, or else all below.
func noticesIn(dir string) (names []string, err error) {
	below := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !noticeName.MatchString(d.Name()) {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			names = append(names, name)
			if strings.Contains(name, "/") {
				below++
			}
		}
		return err
	})
	if below < len(names) {
		names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, "/") })
	}
	return names, err
}
