// From a server path to its export: the part of path resolution before the mount.

package nfsclient

import (
	"path"
	"slices"
	"strings"
)

// splitExport cuts the raw path p after the longest exported directory on it. Above and between
// exports only the exports' own paths exist, without symbolic links. So splitExport resolves ".."
// in that part as text. From the first other name on, p stays unchanged, because only the server's
// tree can resolve it. ".." does not leave an export, except into an export around it.
func splitExport(p string, exports []string) (dir, rest string, ok bool) {
	at := "/"
	for rest = strings.TrimLeft(p, "/"); rest != ""; {
		comp, after, _ := strings.Cut(rest, "/")
		next := path.Join(at, comp)
		if comp == ".." && !inExport(next, exports) && inExport(at, exports) {
			next = at
		}
		if !slices.ContainsFunc(exports, func(x string) bool { return isBelow(x, next) }) {
			break
		}
		at, rest = next, strings.TrimLeft(after, "/")
	}
	for _, x := range exports {
		if isBelow(at, x) && len(x) > len(dir) {
			dir = x
		}
	}
	if inside := strings.TrimLeft(at[min(len(dir), len(at)):], "/"); dir != "" && inside != "" {
		if rest != "" || strings.HasSuffix(p, "/") {
			inside += "/"
		}
		rest = inside + rest
	}
	return dir, rest, dir != ""
}

// inExport reports whether a clean path is an exported directory or below one.
func inExport(p string, exports []string) bool {
	return slices.ContainsFunc(exports, func(x string) bool { return isBelow(p, x) })
}

// isBelow reports whether p is dir or below it; both are absolute and clean.
func isBelow(p, dir string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir+"/")
}

// A mountTry is a directory to mount, and the path below it.
type mountTry struct{ dir, rest string }

// mountTries lists the directories along the raw path p. The deepest comes first, or the outermost
// if ".." follows. Otherwise ".." would stop at a directory that the server lets clients mount
// below the export's root.
func mountTries(p string) []mountTry {
	rest := strings.TrimLeft(p, "/")
	for strings.HasPrefix(rest, "../") || strings.HasPrefix(rest, "./") || rest == ".." || rest == "." {
		_, rest, _ = strings.Cut(rest, "/") // the server's root is its own parent: drop ".."
		rest = strings.TrimLeft(rest, "/")
	}
	dir := "/"
	tries := []mountTry{{dir, rest}}
	for rest != "" {
		comp, after, _ := strings.Cut(rest, "/")
		if comp == ".." {
			return tries
		}
		rest = strings.TrimLeft(after, "/")
		if comp == "." {
			continue
		}
		dir = path.Join(dir, comp)
		tries = append(tries, mountTry{dir, rest})
	}
	slices.Reverse(tries)
	return tries
}
