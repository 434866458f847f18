package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/kubectl"
	"github.com/keelson-dev/keelson/internal/upstream/controlplane"
)

const (
	// patience bounds every wait.
	patience = 3 * time.Minute
	// nobody is the scheduler's name in pods that are not to be scheduled.
	nobody = "nobody"
)

// starts measures from the start of the processes to a user's first pod, each time in a new directory.
func (m *measurement) starts(ctx context.Context) error {
	var took [2][]float64
	err := m.inTurn(m.options.starts, func(_, i int, s *side) error {
		began := time.Now()
		p, err := s.peer.start(ctx, m.next(s))
		if err != nil {
			return err
		}
		err = firstPod(ctx, p.config)
		took[i] = append(took[i], milliseconds(time.Since(began)))
		return errors.Join(err, p.stop())
	})
	if err != nil {
		return err
	}
	m.row(evidence.Peer{Name: "start", What: "start of the processes to a user's first pod over TLS, new directory", Unit: "ms", Of: "median", Runs: m.options.starts},
		[2]float64{median(took[0]), median(took[1])})
	return nil
}

// firstPod creates a pod as a user who has only the role edit, as soon as the server permits it.
func firstPod(ctx context.Context, config *rest.Config) error {
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	asJane := rest.CopyConfig(config)
	asJane.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	jane, err := kubernetes.NewForConfig(asJane)
	if err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
	}
	return errors.Join(soon(ctx, "a role binding", func(ctx context.Context) error {
		_, err := admin.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}), soon(ctx, "a user's first pod", func(ctx context.Context) error {
		_, err := jane.CoreV1().Pods("default").Create(ctx, pod("default", "first"), metav1.CreateOptions{})
		return err
	}))
}

// soon retries until it succeeds.
func soon(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		if ended := pause(ctx, 5*time.Millisecond); ended != nil {
			return fmt.Errorf("%s: %w: %w", what, ended, last)
		}
	}
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "nginx", "round": "0"}},
		Spec: corev1.PodSpec{
			SchedulerName: nobody,
			Containers:    []corev1.Container{{Name: "nginx", Image: "nginx", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}},
		},
	}
}

const manifest = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"color":"blue"}}`

// memory uses both sides lightly, with kubectl, leaves them alone, and then measures their memory. The CPU that they
// use in the meantime is their idle usage.
func (m *measurement) memory(ctx context.Context) error {
	for i := range m.sides {
		if err := m.use(ctx, &m.sides[i], m.next(&m.sides[i])); err != nil {
			return fmt.Errorf("%s: %w", m.sides[i].name, err)
		}
	}
	var before, after, bytes [2]float64
	read := func(cpu *[2]float64) error {
		for i := range m.sides {
			used, err := m.sides[i].cpu()
			if err != nil {
				return err
			}
			cpu[i] = milliseconds(used)
		}
		return nil
	}
	fmt.Fprintf(m.progress, "memory is measured in %v\n", m.quiet)
	// The first seconds after a start are not idle yet.
	if err := pause(ctx, m.quiet/2); err != nil {
		return err
	}
	if err := read(&before); err != nil {
		return err
	}
	began := time.Now()
	if err := pause(ctx, m.quiet-m.quiet/2); err != nil {
		return err
	}
	if err := read(&after); err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	var idle [2]float64
	for i := range m.sides {
		s := &m.sides[i]
		processes, err := s.plane.processes()
		if err != nil {
			return err
		}
		resident, err := residentOf(processes)
		if err != nil {
			return err
		}
		bytes[i] = float64(resident) / 1e6
		idle[i] = (after[i] - before[i]) / seconds
		s.idle = idle[i] / 1000
	}
	m.row(evidence.Peer{Name: "memory", What: fmt.Sprintf("resident memory of the processes %.0f s after kubectl create, apply and explain", m.quiet.Seconds()), Unit: "MB"}, bytes)
	m.row(evidence.Peer{Name: "idle", What: "CPU in a second when nobody asks anything", Unit: "ms"}, idle)
	return nil
}

// hand tries out a cluster with kubectl.
type hand struct{ kubectl string }

func (h hand) use(ctx context.Context, s *side, home string) error {
	path := filepath.Join(home, "kubeconfig")
	c := s.plane.config
	if err := rest.LoadTLSFiles(c); err != nil {
		return err
	}
	if err := controlplane.WriteKubeconfig(ctx, path, c); err != nil {
		return err
	}
	k := kubectl.Kubectl{Path: h.kubectl, Kubeconfig: path, Home: home}
	for _, args := range [][]string{
		{"create", "deployment", "nginx", "--image=nginx", "--replicas=3"}, {"apply", "-f", "-"}, {"explain", "deployment.spec"},
	} {
		answer, err := k.Run(ctx, manifest, args...)
		if err != nil {
			return err
		}
		if answer.Code != 0 {
			return fmt.Errorf("kubectl %s: %s", strings.Join(args, " "), answer.Stderr)
		}
	}
	return nil
}
