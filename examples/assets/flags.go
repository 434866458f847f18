package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// newFlags returns a set of flags that, as upstream's, may be written with underscores.
func newFlags(name string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	f.ParseErrorsAllowlist.UnknownFlags = true
	f.SortFlags = false
	return f
}

// parseFlags reads a command line. What is not known here is told and ignored: suites pass flags of the upstream programs.
func parseFlags(f *pflag.FlagSet, args []string, tell func(format string, args ...any)) error {
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if arg == "--" {
			break
		}
		if strings.HasPrefix(arg, "--") && name != "help" && f.Lookup(name) == nil {
			tell("--%s is not known here and has no effect", name)
		}
	}
	err := f.Parse(args)
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return err
}

// usageOf returns the text of --help: a line for each flag, which begins with its name.
func usageOf(what string, f *pflag.FlagSet) string {
	return what + "\n\nFlags:\n\n" + f.FlagUsages()
}
