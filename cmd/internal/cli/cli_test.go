// Errors: one line each, with the remedy.

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
	copy.Flags().Duration("wait", 0, "")
	copy.Flags().Bool("quick", false, "")
	copy.Flags().String("hidden", "", "")
	_ = copy.Flags().MarkHidden("hidden")
	many := &cobra.Command{Use: "many"}
	many.AddCommand(&cobra.Command{Use: "of NAME", Args: cobra.ExactArgs(1), RunE: run})
	root.AddCommand(copy, many, &cobra.Command{Use: "list NAME...", Args: cobra.MinimumNArgs(1), RunE: run})
	Prepare(root)
	return root
}

// Wrong arguments, flags and values give one line that says what to write.
func TestOneLine(t *testing.T) {
	for args, want := range map[string]string{
		"copy":                   "an argument is missing: usage is prog copy FROM TO; see prog copy --help",
		"copy a":                 "an argument is missing: usage is prog copy FROM TO; see prog copy --help",
		"copy a b c":             "too many arguments: usage is prog copy FROM TO; see prog copy --help",
		"list":                   "an argument is missing: usage is prog list NAME...; see prog list --help",
		"lisst x":                `there is no command "lisst": did you mean list?`,
		"zz":                     `there is no command "zz": see prog --help`,
		"copy --x a b":           "unknown flag: --x: see prog copy --help",
		"copy --port 1x a b":     `invalid argument "1x" for "--port" flag: must be a number: see prog copy --help`,
		"copy --port 70000 a b":  `invalid argument "70000" for "--port" flag: value out of range: see prog copy --help`,
		"copy --wait 5 a b":      `invalid argument "5" for "--wait" flag: write the unit too, such as 5s: see prog copy --help`,
		"copy --wait soon a b":   `invalid argument "soon" for "--wait" flag: must be a time such as 5s or 10m: see prog copy --help`,
		"copy --quick=maybe a b": `invalid argument "maybe" for "--quick" flag: must be true or false: see prog copy --help`,
		"copy --porter 1 a b":    "unknown flag: --porter (did you mean --port?): see prog copy --help",
		"copy --hidde 1 a b":     "unknown flag: --hidde: see prog copy --help",
		"many of":                "an argument is missing: usage is prog many of NAME [flags]; see prog many of --help",
		"copy a b":               "",
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
		t.Fatalf("Execute: %v", err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "man1", "prog-copy.1"))
	if err != nil || !bytes.Contains(page, []byte("copy FROM TO")) {
		t.Errorf("%v: %s", err, page)
	}
}
