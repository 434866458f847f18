package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/pause"
)

const (
	deployment = "nginx-demo"
	replicas   = 3
)

// play creates the deployment, inspects it, and deletes it, even if something failed.
func (s *story) play(ctx context.Context) (err error) {
	if err := s.waitForNode(ctx); err != nil {
		return err
	}
	runtime, err := s.ask(ctx, "get", "nodes", "-o", "jsonpath={.items[0].status.nodeInfo.containerRuntimeVersion}")
	if err != nil {
		return err
	}
	genuine := strings.HasPrefix(runtime, "containerd://")
	if genuine {
		s.tell("pods are real containers here, by %s", runtime)
	} else {
		s.tell("pods run in name only here (%s): their pages, exec and logs are left out", runtime)
	}
	defer func() {
		if err != nil {
			_, _ = s.ask(context.WithoutCancel(ctx), "delete", "deployment", deployment, "--ignore-not-found", "--wait=false")
		}
	}()
	if err := s.rollOut(ctx); err != nil {
		return err
	}
	if genuine {
		if err := s.lookInside(ctx); err != nil {
			return err
		}
	}
	return s.scaleAndDelete(ctx)
}

// waitForNode waits until the first node of a cluster that is starting is ready.
func (s *story) waitForNode(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		list, err := s.ask(ctx, "get", "nodes", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && strings.Contains(list, "True") {
			return nil
		}
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("no node is ready: %w", err)
		}
	}
}

func (s *story) rollOut(ctx context.Context) error {
	for _, args := range [][]string{
		{"get", "nodes", "-o", "wide"},
		{"create", "deployment", deployment, "--image=nginx", fmt.Sprintf("--replicas=%d", replicas)},
		{"rollout", "status", "deployment", deployment, "--timeout=40s"},
		{"get", "pods", "-l", "app=" + deployment, "-o", "wide"},
	} {
		if _, err := s.show(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// lookInside fetches the page of every pod, runs a command in one and reads its log.
func (s *story) lookInside(ctx context.Context) error {
	list, err := s.ask(ctx, "get", "pods", "-l", "app="+deployment, "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.podIP}{"\n"}{end}`)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(list), "\n")
	if len(lines) != replicas {
		return fmt.Errorf("there are %d pods instead of %d", len(lines), replicas)
	}
	var pod string
	for _, line := range lines {
		name, ip, _ := strings.Cut(line, " ")
		page, err := fetch(ctx, ip)
		if err != nil {
			return fmt.Errorf("the page of pod %s: %w", name, err)
		}
		if !strings.Contains(page, "nginx") {
			return fmt.Errorf("http://%s/ of pod %s is not nginx's page: %q", ip, name, page)
		}
		s.tell("http://%s/ answers with %d bytes: %s", ip, len(page), title(page))
		pod = name
	}
	said, err := s.show(ctx, "exec", pod, "--", "sh", "-c", "echo in $(hostname): $(nginx -v 2>&1)")
	if err != nil {
		return err
	}
	if !strings.Contains(said, "in "+pod) {
		return fmt.Errorf("exec in pod %s said %q", pod, said)
	}
	log, err := s.show(ctx, "logs", pod, "--tail=2")
	if err == nil && !strings.Contains(log, "GET / HTTP") {
		err = fmt.Errorf("the log of pod %s does not tell of the page that was fetched: %q", pod, log)
	}
	return err
}

func title(page string) string {
	_, rest, _ := strings.Cut(page, "<title>")
	text, _, _ := strings.Cut(rest, "</title>")
	return text
}

func (s *story) scaleAndDelete(ctx context.Context) error {
	for _, args := range [][]string{
		{"scale", "deployment", deployment, "--replicas=5"},
		{"rollout", "status", "deployment", deployment, "--timeout=40s"},
		{"delete", "deployment", deployment},
		{"wait", "--for=delete", "pods", "-l", "app=" + deployment, "--timeout=40s"},
	} {
		if _, err := s.show(ctx, args...); err != nil {
			return err
		}
	}
	left, err := s.ask(ctx, "get", "pods", "-l", "app="+deployment, "-o", "name")
	if err == nil && left != "" {
		err = fmt.Errorf("these pods are left after %v: %s", time.Since(s.began).Round(time.Second), left)
	}
	return err
}
