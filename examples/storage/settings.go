package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

const usage = `storage backs up, restores, copies and compares the state of clusters.

Usage:

  storage [flags] snapshot STORE FILE   write what the store holds to a file; others may go on writing meanwhile
  storage [flags] check FILE            read a file to its end and tell what is in it
  storage [flags] restore FILE STORE    fill an empty store from a file, and compare
  storage [flags] copy STORE STORE      fill the second store, which is empty, from the first, and compare
  storage [flags] verify STORE STORE    compare two stores, or a store and a file (file:PATH)
  storage [flags] compact STORE         have an etcd forget its history, which others may be following

A STORE is one of

  wal:DIR         the directory of an embedded store, which no cluster is using just now; that of
                  examples/cluster is the directory store in its --data-dir
  etcd:URL[,URL]  an etcd, which may be in use: etcd:http://127.0.0.1:2379
  file:PATH       a snapshot, to copy from and to compare with; it is read into memory

Flags:

  --prefix PREFIX       take only keys that begin so, as in /registry/secrets/ (snapshot, copy, verify)
  --writers N           how many records are written at the same time; with 1, a restore keeps the order of
                        revisions (default %d)
  --etcd-cafile FILE    who signs the certificates of the etcd
  --etcd-certfile FILE  the certificate to show to it, and
  --etcd-keyfile FILE   its key
  --etcd-user NAME      who to log in as, with the password in
  --etcd-password-file FILE
  --etcd-prefix PREFIX  where in the etcd the state is (default %s)
  --quiet               do not show progress

Examples:

  storage snapshot wal:$HOME/.keelson/store backup.snapshot      back up a cluster that was ended
  storage snapshot etcd:http://127.0.0.1:2379 backup.snapshot    back up one that is running, on etcd
  storage restore backup.snapshot wal:$HOME/.keelson/store       a new directory with that state
  storage copy wal:$HOME/.keelson/store etcd:http://127.0.0.1:2379   move to etcd
  storage verify etcd:http://127.0.0.1:2379 file:backup.snapshot what has changed since?

Values are copied as they are stored: what is encrypted stays so, and the file is readable by you alone. Leases
are left behind: the clusters here delete what is past its time. New directories begin at a revision far above the old
one's, so that clients which followed that one list again; an etcd cannot do so: restart its clients.
Ctrl-C leaves no half file and no half directory; an etcd that was being filled must be emptied before the next attempt.
`

const (
	defaultWriters = 32
	defaultPrefix  = "/registry"
)

// errUsage is the error of an invalid command line.
var errUsage = errors.New("see --help")

// settings are the values of the command line.
type settings struct {
	command  string
	args     []string
	prefix   string
	writers  int
	quiet    bool
	etcd     etcdSettings
	progress io.Writer
}

type etcdSettings struct {
	ca, cert, key, user, passwordFile, prefix string
}

// commands are the names of the commands and of their arguments.
func commands() map[string]string {
	return map[string]string{
		"snapshot": "STORE FILE", "check": "FILE", "restore": "FILE STORE", "copy": "STORE STORE", "verify": "STORE STORE", "compact": "STORE",
	}
}

// parse reads the command line. Its errors say what to write instead.
func parse(args []string, help io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("storage", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.prefix, "prefix", "", "")
	f.IntVar(&s.writers, "writers", defaultWriters, "")
	f.BoolVar(&s.quiet, "quiet", false, "")
	f.StringVar(&s.etcd.ca, "etcd-cafile", "", "")
	f.StringVar(&s.etcd.cert, "etcd-certfile", "", "")
	f.StringVar(&s.etcd.key, "etcd-keyfile", "", "")
	f.StringVar(&s.etcd.user, "etcd-user", "", "")
	f.StringVar(&s.etcd.passwordFile, "etcd-password-file", "", "")
	f.StringVar(&s.etcd.prefix, "etcd-prefix", defaultPrefix, "")
	// Flags may stand anywhere.
	for rest := args; ; {
		err := f.Parse(rest)
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(help, usage, defaultWriters, defaultPrefix)
			return s, err
		}
		if err != nil {
			return s, fmt.Errorf("%w; %w", err, errUsage)
		}
		if f.NArg() == 0 {
			break
		}
		s.args = append(s.args, f.Arg(0))
		rest = f.Args()[1:]
	}
	return s, s.check()
}

func (s *settings) check() error {
	if len(s.args) == 0 {
		return fmt.Errorf("say what to do: snapshot, check, restore, copy, verify or compact; %w", errUsage)
	}
	s.command, s.args = s.args[0], s.args[1:]
	takes, known := commands()[s.command]
	filtering := s.command == "snapshot" || s.command == "copy" || s.command == "verify"
	switch {
	case !known:
		return fmt.Errorf("%q is not known: write snapshot, check, restore, copy, verify or compact; %w", s.command, errUsage)
	case len(s.args) != len(strings.Fields(takes)):
		return fmt.Errorf("write: storage %s %s; %w", s.command, takes, errUsage)
	case s.prefix != "" && !filtering:
		return fmt.Errorf("--prefix is not for %s; %w", s.command, errUsage)
	case s.writers < 1:
		return fmt.Errorf("--writers %d: at least one must write; %w", s.writers, errUsage)
	case (s.etcd.cert == "") != (s.etcd.key == ""):
		return fmt.Errorf("--etcd-certfile and --etcd-keyfile belong together: add the other one; %w", errUsage)
	case (s.etcd.user == "") != (s.etcd.passwordFile == ""):
		return fmt.Errorf("--etcd-user and --etcd-password-file belong together: add the other one; %w", errUsage)
	case !strings.HasPrefix(s.etcd.prefix, "/") || strings.HasSuffix(s.etcd.prefix, "/"):
		return fmt.Errorf("--etcd-prefix %q: write it as %s, with a slash in front and none behind; %w", s.etcd.prefix, defaultPrefix, errUsage)
	}
	return nil
}
