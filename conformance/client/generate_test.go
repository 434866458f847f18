package client

import (
	"os"
	"slices"
	"strings"
	"testing"
)

const generated = "../../client/generate/testdata"

// answers are the commands of a file with kubectl's answers: the output as converted by show, or the error after "!".
func answers(t *testing.T, k *kubectl, file string, show func(string) string, flags ...string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		out, failure := k.run(words(line), flags...)
		b.WriteString("$ " + line + "\n")
		if failure != "" {
			failure, _, _ = strings.Cut(failure, "\nSee '")
			b.WriteString("! " + strings.ReplaceAll(failure, "\n", "\n! ") + "\n")
			continue
		}
		b.WriteString(show(out))
	}
	return b.String()
}

// words splits a line at spaces outside single quotes.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// quoted puts a sign before every line, and one after the last that shows whether it ended with a newline.
func quoted(out string) string {
	return "> " + strings.ReplaceAll(out, "\n", "\n> ") + "$\n"
}

// withoutNotes removes the flag library's warnings about deprecated flags.
func withoutNotes(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "Flag --") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// before inserts flags before the arguments after "--".
func before(args, flags []string) []string {
	at := slices.Index(args, "--")
	if at < 0 {
		at = len(args)
	}
	return slices.Concat(args[:at], flags, args[at:])
}

func TestGenerate(t *testing.T) {
	k := newKubectl(t)
	t.Chdir(generated)
	golden(t, "answers.txt", answers(t, k, "commands.txt", withoutNotes, "--dry-run=client", "--output=yaml"))
}

// golden compares with a file, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what kubectl answers now; write it anew with -update", file)
	}
}
