// Admit tells what an API server would make of requests, without a server or a cluster: it runs cases in YAML files and compares
// what becomes of them with what the files want. admit --help has an example of a file.
//
//	admit [flags] FILE...
//	admit show [-f STATE.yaml]... OBJECT.yaml
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/cluster/admit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "admit:", err)
		os.Exit(1)
	}
}

// errDiffer means that cases became something else than their files want.
var errDiffer = errors.New("cases differ from what their files want")

type settings struct {
	update  bool
	verbose bool
	only    string
	state   []string
	args    []string
}

func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	flags := pflag.NewFlagSet("admit", pflag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { fmt.Fprint(out, help, flags.FlagUsages()) }
	flags.BoolVar(&s.update, "update", false, "write what became of the cases into the files, as what they want")
	flags.BoolVarP(&s.verbose, "verbose", "v", false, "also tell what became of the cases that are as wanted")
	flags.StringVar(&s.only, "run", "", "a regular expression: only cases whose names match are told of and updated")
	flags.StringArrayVarP(&s.state, "filename", "f", nil, "for show: a YAML file with the state, as kubectl get -o yaml writes it; may be repeated")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	s.args = flags.Args()
	return s, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parse(args, out)
	switch {
	case err != nil:
		return err
	case len(s.args) == 0:
		return errors.New("which files? admit --help has an example of one")
	case s.args[0] == "show" && len(s.args) == 2:
		return s.show(ctx, s.args[1], out)
	case s.args[0] == "show" || len(s.state) > 0:
		return errors.New("show takes one file, and only show takes -f")
	}
	only, err := regexp.Compile(s.only)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	wrong := false
	for _, path := range s.args {
		ok, err := s.file(ctx, path, only, out)
		if err != nil {
			return err
		}
		wrong = wrong || !ok
	}
	if wrong {
		return errDiffer
	}
	return nil
}

// file runs the cases of a file, and reports whether all are as wanted.
func (s settings) file(ctx context.Context, path string, only *regexp.Regexp, out io.Writer) (ok bool, err error) {
	suite, err := admit.Load(path)
	if err != nil {
		return false, err
	}
	w, err := suite.Start(ctx, admit.Options{})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	all, err := suite.Run(ctx, w)
	if err != nil {
		return false, err
	}
	ok = true
	var told []admit.Outcome
	for _, o := range all {
		if !only.MatchString(o.Name) {
			continue
		}
		told = append(told, o)
		if len(o.Differences) > 0 && !s.update {
			ok = false
		}
		s.tell(path, o, out)
	}
	if !s.update {
		return ok, nil
	}
	text, err := suite.Update(told)
	if err != nil {
		return false, err
	}
	return true, write(path, text)
}

// tell reports a case.
func (s settings) tell(path string, o admit.Outcome, out io.Writer) {
	verdict := "ok  "
	switch {
	case len(o.Differences) > 0 && s.update:
		verdict = "new "
	case len(o.Differences) > 0:
		verdict = "FAIL"
	}
	fmt.Fprintf(out, "%s %s:%d: %s\n", verdict, filepath.Base(path), o.Line, o.Name)
	if !s.update {
		for _, d := range o.Differences {
			fmt.Fprintln(out, "     want", d)
		}
	}
	if s.verbose {
		details(o.Result, "     ", out)
	}
}

// write replaces a file that has changed.
func write(path string, text []byte) error {
	before, err := os.ReadFile(path)
	if err != nil || bytes.Equal(before, text) {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, info.Mode().Perm())
}

// show tells what would become of one object that is created.
func (s settings) show(ctx context.Context, path string, out io.Writer) (err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var state []runtime.Object
	for _, file := range s.state {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		objects, err := admit.Decode(data)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		state = append(state, objects...)
	}
	w, err := admit.Start(ctx, state, admit.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	r, err := w.Ask(ctx, admit.Request{Text: text})
	if err != nil {
		return err
	}
	details(r, "", out)
	return nil
}

// details tells all of a result.
func details(r *admit.Result, indent string, out io.Writer) {
	for _, step := range r.Steps {
		changes := step.Changes()
		if len(changes) > 0 {
			fmt.Fprintf(out, "%s%s:\n", indent, step)
		}
		for _, c := range changes {
			fmt.Fprintf(out, "%s  %s\n", indent, c)
		}
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(out, "%swarning: %s\n", indent, text)
	}
	for _, c := range r.Costs {
		fmt.Fprintf(out, "%scost of %s, %s: %d of %d\n", indent, c.Policy, c.Part, c.Units, c.Limit)
	}
	if r.Refusal != nil {
		fmt.Fprintf(out, "%srefused: %s\n", indent, r.Refusal)
		return
	}
	fmt.Fprintf(out, "%sadmitted\n", indent)
}
