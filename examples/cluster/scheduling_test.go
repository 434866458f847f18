package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
)

// settingsOf returns what a command line says.
func settingsOf(t *testing.T, args ...string) settings {
	t.Helper()
	s, err := parse(append(args, "--data-dir", t.TempDir()), func(string) string { return "" }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchedulerConfig: pods get the profile that the file has for their scheduler, and the decision about each can be read.
func TestSchedulerConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: default-scheduler
- schedulerName: nowhere
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: none, operator: Exists}]}]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := settingsOf(t, "--scheduler-config", file)
	o := s.options()
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, scheduler := range map[string]string{"placed": "", "pending": "nowhere"} {
		if _, err := api.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"placed": "default/placed goes to node-", "pending": "node(s) didn't match scheduler-enforced node affinity",
	} {
		// The first decision may be that the node is not ready yet.
		eventually(t, fmt.Sprintf("the last decision about %s is: %s", name, want), func() bool {
			text, err := api.Discovery().RESTClient().Get().AbsPath(decisionsPath+"/default/"+name).Param("format", "table").Do(t.Context()).Raw()
			return err == nil && strings.Contains(string(text), want)
		})
	}
}

// TestSchedulerDecisions: how many decisions are kept.
func TestSchedulerDecisions(t *testing.T) {
	for args, served := range map[string]bool{
		"--nodes 1": true, "--nodes 500": false, "--nodes 500 --scheduler-decisions 5": true, "--scheduler-decisions 0": false, "--disable scheduler": false,
	} {
		s := settingsOf(t, strings.Fields(args)...)
		if _, ok := s.options().Server.Paths[decisionsPath]; ok != served {
			t.Errorf("%s: served %t", args, ok)
		}
	}
}

// TestSchedulerFilesThatMeanNothing: a file for a process of its own is refused.
func TestSchedulerFilesThatMeanNothing(t *testing.T) {
	for text, want := range map[string]string{
		"leaderElection: {leaderElect: true}\n":  "leaderElection.leaderElect: true is not supported",
		"clientConnection: {kubeconfig: /a/b}\n": "clientConnection.kubeconfig: is not supported",
		"parallelism: 0\n":                       "parallelism: Invalid value: 0",
	} {
		file := filepath.Join(t.TempDir(), "scheduler.yaml")
		if err := os.WriteFile(file, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := parse([]string{"--scheduler-config", file}, func(string) string { return "" }, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
