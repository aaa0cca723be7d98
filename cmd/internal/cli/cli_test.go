// The manners: one line, and what to do.

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func testRoot() *cobra.Command {
	root := &cobra.Command{Use: "prog"}
	run := func(*cobra.Command, []string) error { return nil }
	copy := &cobra.Command{Use: "copy FROM TO", Short: "Copy", Args: cobra.ExactArgs(2), RunE: run}
	copy.Flags().Uint16("port", 1, "")
	root.AddCommand(copy, &cobra.Command{Use: "list NAME...", Args: cobra.MinimumNArgs(1), RunE: run})
	Prepare(root)
	return root
}

func TestOneLine(t *testing.T) {
	for args, want := range map[string]string{
		"copy":               "an argument is missing: usage is prog copy FROM TO; see prog copy --help",
		"copy a":             "an argument is missing: usage is prog copy FROM TO; see prog copy --help",
		"copy a b c":         "too many arguments: usage is prog copy FROM TO; see prog copy --help",
		"list":               "an argument is missing: usage is prog list NAME...; see prog list --help",
		"lisst x":            `there is no command "lisst": did you mean list?`,
		"zz":                 `there is no command "zz": see prog --help`,
		"copy --x a b":       "unknown flag: --x: see prog copy --help",
		"copy --port 1x a b": `invalid argument "1x" for "--port" flag: invalid syntax: see prog copy --help`,
		"copy a b":           "",
	} {
		root := testRoot()
		root.SetArgs(strings.Fields(args))
		root.SetOut(new(bytes.Buffer))
		got := ""
		if err := root.Execute(); err != nil {
			got = OneLine(root, err)
		}
		if got != want {
			t.Errorf("prog %s: %q, want %q", args, got, want)
		}
	}
}

func TestMan(t *testing.T) {
	dir := t.TempDir()
	root := testRoot()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "man1", "prog-copy.1"))
	if err != nil || !bytes.Contains(page, []byte("copy FROM TO")) {
		t.Errorf("%v: %s", err, page)
	}
}
