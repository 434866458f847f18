package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/kubectl"
	"github.com/keelson-dev/keelson/pki"
)

// record writes the answers of the commands into the scripts, to be reviewed by a person.
var record = flag.Bool("record", false, "write the answers into testdata/kubectl/*.txt instead of comparing")

// minCommands is the minimum number of commands in the scripts.
const minCommands = 120

// TestKubectl runs the scripts of testdata/kubectl with the upstream kubectl, each against its own cluster with three
// simulated nodes, in a namespace with its name. A script consists of commands and their answers:
//
//	$ COMMAND     run by bash; answers what follows, up to the next command, and exit code 0
//	! COMMAND     the same, but it fails
//	~ COMMAND     the same as $, run again until it answers that
//	> MORE        a further line of the command
//	## COMMENT
//
// An answer is the standard output, then the standard error; text that differs between runs is in capitals.
func TestKubectl(t *testing.T) {
	path, err := kubectl.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := program(t)
	scripts, err := filepath.Glob("testdata/kubectl/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, file := range scripts {
		s, err := readScript(file)
		if err != nil {
			t.Fatal(err)
		}
		commands += len(s.steps)
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			process := started(t, p, filepath.Join(t.TempDir(), "data"), "--nodes", "3", "--storage", "memory")
			play(t, s, path, process)
			if text := process.Output(); strings.Contains(text, "goroutine") {
				t.Error(text)
			}
			if err := process.Interrupt(); err != nil {
				t.Error(err)
			}
		})
	}
	if commands < minCommands {
		t.Errorf("the scripts hold %d commands, want %d", commands, minCommands)
	}
}

// play runs one script.
func play(t *testing.T, s *script, path string, process *clusterprocess.Process) {
	home := t.TempDir()
	sh := shell{kubectl: kubectl.Kubectl{Path: path, Kubeconfig: filepath.Join(home, "config"), Home: home}, url: process.URL}
	config, err := os.ReadFile(process.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	write(t, sh.kubectl.Kubeconfig, string(config))
	authority, err := pki.New("example.org")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{Name: "example.org", Hosts: []string{"example.org"}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, "tls.crt"), string(pair.Certificate))
	write(t, filepath.Join(home, "tls.key"), string(pair.Key))
	for _, command := range []string{"kubectl create namespace " + s.name, "kubectl config set-context --current --namespace=" + s.name} {
		if text, failed := sh.run(t, command); failed {
			t.Fatal(text)
		}
	}
	if text, failed := sh.run(t, "until kubectl get serviceaccount default >/dev/null 2>&1; do sleep 0.1; done"); failed {
		t.Fatal(text)
	}
	for i := range s.steps {
		step := &s.steps[i]
		text, failed := sh.until(t, step)
		if *record {
			step.answer = text
		}
		if failed != (step.mark == "!") {
			t.Errorf("%s:%d: %s\nfailed: %v, with\n%s", s.file, step.line, step.command, failed, text)
		} else if diff := cmp.Diff(step.answer, text); diff != "" {
			t.Errorf("%s:%d: %s\n(-want +got)\n%s", s.file, step.line, step.command, diff)
		}
	}
	if *record {
		write(t, s.file, s.text())
	}
}

// shell runs commands like a user.
type shell struct {
	kubectl kubectl.Kubectl
	url     string
}

const (
	patience = 20 * time.Second
	settled  = 3 * time.Second // before the answer of a ~ command is recorded
)

// until runs a step; a ~ command is repeated until its answer is as expected or patience is exhausted.
func (s shell) until(t *testing.T, step *step) (string, bool) {
	t.Helper()
	if step.mark != "~" {
		return s.run(t, step.command)
	}
	if *record {
		time.Sleep(settled)
		return s.run(t, step.command)
	}
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		text, failed := s.run(t, step.command)
		if !failed && text == step.answer || time.Now().After(end) {
			return text, failed
		}
	}
}

func (s shell) run(t *testing.T, command string) (text string, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", command)
	c.Dir, c.Env = s.kubectl.Home, append(s.kubectl.Command(ctx).Env, "PATH="+filepath.Dir(s.kubectl.Path)+":"+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return s.normal(stdout.String() + stderr.String()), err != nil
}

// varies lists patterns of text that differs between runs, with their replacements in scripts.
var varies = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)`), "TIME"},
	{regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} 20\d\d \d\d:\d\d:\d\d [+A-Z0-9]+`), "TIME"},
	{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`), "TOKEN"},
	{regexp.MustCompile(`((?:resourceVersion|"resourceVersion"): ?"?)\d+`), "${1}REVISION"},
	{regexp.MustCompile(`(Resource Version:\s+)\d+`), "${1}REVISION"},
	{regexp.MustCompile(`\b((?:[a-z0-9]+-)+[a-f0-9bcdfghjklmnpqrstvwxz]{8,10})-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "${1}-SUFFIX"},
	{regexp.MustCompile(`(^|[ (\t>])\d+(s|ms|m|m\d+s|h|h\d+m)($|[ )\t\n])`), "${1}AGE${3}"},
	{regexp.MustCompile(`\b(10|127)(\.\d+){3}\b`), "IP"},
	{regexp.MustCompile(`(IP:)\d+`), "${1}PORT"},
	{regexp.MustCompile(`\b3[0-2]\d{3}(/TCP|/UDP)`), "NODEPORT${1}"},
	{regexp.MustCompile(`/tmp/[^\s"':]+`), "PATH"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}`), "TIME"},
	{regexp.MustCompile(`\b[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ `), "LOG "},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "ID"},
	{regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`), "kube-api-access-SUFFIX"},
	{regexp.MustCompile(`X509SHA256=ID`), "X509SHA256=HASH"},
	{regexp.MustCompile(`([^\n ]) {2,}`), "${1}  "}, // columns are as wide as their content
	{regexp.MustCompile(`[ \t]+\n`), "\n"},
}

// normal makes answers of different runs comparable.
func (s shell) normal(text string) string {
	text = strings.ReplaceAll(text, s.url, "https://SERVER")
	text = strings.ReplaceAll(text, strings.TrimPrefix(s.url, "https://"), "SERVER")
	for _, v := range varies {
		text = v.pattern.ReplaceAllString(text, v.name)
		text = v.pattern.ReplaceAllString(text, v.name) // adjacent matches share a character
	}
	return strings.TrimRight(text, "\n")
}

// script is a file of commands and their answers.
type script struct {
	name, file string
	steps      []step
}

type step struct {
	mark, command, answer string
	comment               string // the lines before it
	line                  int
}

func readScript(file string) (*script, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &script{name: strings.TrimSuffix(filepath.Base(file), ".txt"), file: file}
	comment := ""
	for i, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		last := len(s.steps) - 1
		switch {
		case mark == "$" || mark == "!" || mark == "~":
			s.steps = append(s.steps, step{mark: mark, command: rest, comment: comment, line: i + 1})
			comment = ""
		case mark == "##":
			comment += line + "\n"
		case last < 0 && line != "":
			return nil, fmt.Errorf("%s:%d: a script begins with a command", file, i+1)
		case mark == ">" && s.steps[last].answer == "":
			s.steps[last].command += "\n" + rest
		case last >= 0:
			s.steps[last].answer += line + "\n"
		}
	}
	for i := range s.steps {
		s.steps[i].answer = strings.TrimRight(s.steps[i].answer, "\n")
	}
	return s, nil
}

func (s *script) text() string {
	var b strings.Builder
	for i, step := range s.steps {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(step.comment + step.mark + " " + strings.ReplaceAll(step.command, "\n", "\n> ") + "\n")
		if step.answer != "" {
			b.WriteString(step.answer + "\n")
		}
	}
	return b.String()
}
