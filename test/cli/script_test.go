// The scripts in testdata: their language, and how they are read.

package cli

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A testCase is one case of a script.
//
//	case NAME
//	  use NAME          the setup of a fixture of this file, first
//	  rootsetup LINE    shell, as root, before the setup; such a case is for root alone where the suite is not run by root
//	  setup LINE        shell, as the caller, in the root of the tree
//	  umask 077         of the setup and of the commands (default 022)
//	  run LINE          shell: one command line to compare; more of them run one after another
//	  stdin TEXT        standard input of the run before it, \n being a new line (default: /dev/null)
//	  only root|user    which caller the case is for (default: both)
//	  unordered         the order of lines of output does not matter
//	  check atime PATH  compare the access time of PATH too
//	  check holes PATH  compare the space that PATH takes too
//	  form stat         the output has figures that cannot be the same: see forms_test.go
//	  differs REASON PATTERN   a difference that is expected, see reasons
//
// In a run, $(n NAME) is a name as it is written after @: in a URL, with each byte escaped. In a
// line, @ at the start of a word is the tree: a directory for coreutils, a URL for nfsrdma; % is a
// directory of this machine for both, where commands start. Setups have @ as a directory for both.
type testCase struct {
	file, name string
	rootSetup  []string
	setup      []string
	umask      string
	steps      []step
	only       string
	unordered  bool
	checks     []check
	form       string
	differs    map[string][]difference // by caller
}

type step struct{ line, stdin string }

type check struct{ what, path string }

// A difference is a pattern for lines in a comparison, in which * matches anything, and the reason
// for such a line.
type difference struct{ reason, pattern string }

// reasons are the permitted reasons of differences.
var reasons = map[string]string{
	"rename":   "cp replaces a file by renaming a complete one over it, so its directory changes too",
	"words":    "the same is said in other words",
	"safer":    "nothing is done where coreutils do a part, or what is done is already so",
	"usage":    "a mistake in the options has the status 1 with every command of nfsrdma",
	"protocol": "NFS version 3 cannot say this",
}

var forms = []string{"", "stat", "df"}

func readScripts() ([]*testCase, error) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		return nil, err
	}
	var all []*testCase
	seen := map[string]bool{}
	for _, file := range files {
		cases, err := readScript(file)
		if err != nil {
			return nil, err
		}
		for _, c := range cases {
			if seen[c.name] {
				return nil, fmt.Errorf("%s: there are two cases %s", file, c.name)
			}
			seen[c.name] = true
			all = append(all, c)
		}
	}
	return all, nil
}

func readScript(file string) (cases []*testCase, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fixtures := map[string]*testCase{}
	var c *testCase
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimLeft(rest, " ")
		switch {
		case word == "case" || word == "fixture":
			c = &testCase{file: file, name: rest, umask: "022", differs: map[string][]difference{}}
			if word == "fixture" {
				fixtures[rest] = c
			} else {
				cases = append(cases, c)
			}
		case c == nil:
			err = fmt.Errorf("stands in no case")
		case word == "use" && fixtures[rest] == nil:
			err = fmt.Errorf("there is no fixture %q", rest)
		case word == "use":
			c.rootSetup = append(c.rootSetup, fixtures[rest].rootSetup...)
			c.setup = append(c.setup, fixtures[rest].setup...)
		default:
			err = c.add(word, rest)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	return cases, lines.Err()
}

func (c *testCase) add(word, rest string) error {
	switch word {
	case "rootsetup":
		c.rootSetup = append(c.rootSetup, rest)
	case "setup":
		c.setup = append(c.setup, rest)
	case "umask":
		c.umask = rest
	case "run":
		c.steps = append(c.steps, step{line: rest})
	case "stdin":
		if len(c.steps) == 0 {
			return fmt.Errorf("stdin follows run")
		}
		c.steps[len(c.steps)-1].stdin += strings.ReplaceAll(rest, `\n`, "\n")
	case "only":
		if rest != "root" && rest != "user" {
			return fmt.Errorf("only root or user")
		}
		c.only = rest
	case "unordered":
		c.unordered = true
	case "check":
		what, path, ok := strings.Cut(rest, " ")
		if !ok || what != "atime" && what != "holes" {
			return fmt.Errorf("check atime PATH or check holes PATH")
		}
		c.checks = append(c.checks, check{what, path})
	case "form":
		if c.form = rest; !slices.Contains(forms, rest) {
			return fmt.Errorf("there is no form %q", rest)
		}
	case "differs", "differs.root", "differs.user":
		reason, pattern, _ := strings.Cut(rest, " ")
		if reasons[reason] == "" || pattern == "" {
			return fmt.Errorf("differs REASON PATTERN, where the reasons are listed in script_test.go")
		}
		for _, who := range []string{"root", "user"} {
			if word == "differs" || word == "differs."+who {
				c.differs[who] = append(c.differs[who], difference{reason, pattern})
			}
		}
	default:
		return fmt.Errorf("unknown word %q", word)
	}
	return nil
}

// wildcard returns a regular expression for whole lines from a pattern in which * matches anything.
func wildcard(pattern string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
}

var (
	treeWord    = regexp.MustCompile(`(^|[\s'"=:;(])@(/|$|[\s'"])`)
	scratchWord = regexp.MustCompile(`(^|[\s'"=:;(<>])%(/|$|[\s'"])`)
)

// expand replaces @ and % in a script's line.
func expand(line, tree, scratch string) string {
	// Twice, because two adjacent words share a blank, and each match includes its blanks.
	for range 2 {
		line = treeWord.ReplaceAllString(line, "${1}"+tree+"${2}")
		line = scratchWord.ReplaceAllString(line, "${1}"+scratch+"${2}")
	}
	return line
}
