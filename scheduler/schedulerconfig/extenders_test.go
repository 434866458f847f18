package schedulerconfig_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/schedulerconfig"
)

// extenders returns the names of the extenders of a profile, which are its last plugins.
func extenders(c *schedulerconfig.Config, n int) string {
	var names []string
	all := c.Profiles[0].Plugins
	for _, e := range all[len(all)-n:] {
		names = append(names, e.Plugin.Name())
	}
	return strings.Join(names, ", ")
}

// TestNamesOfExtenders: each has a name of its own, and those that may fail come last.
func TestNamesOfExtenders(t *testing.T) {
	c := open(t, "extenders: [{urlPrefix: http://a, ignorable: true}, {urlPrefix: http://b}, {urlPrefix: http://a}, {urlPrefix: https://c, bindVerb: b}, {urlPrefix: http://a, ignorable: true}]\n")
	if got, want := extenders(c, 5), "http://b, http://a (2), https://c, http://a, http://a (3)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestManagedResources: they have names of extended resources, and the extender is asked about pods that name them.
func TestManagedResources(t *testing.T) {
	c := open(t, "extenders: [{urlPrefix: http://a, filterVerb: f, managedResources: [{name: a.b/c}, {name: a.b/d, ignoredByScheduler: true}]}]\n")
	asks := c.Profiles[0].Plugins[len(c.Profiles[0].Plugins)-1].Plugin.(scheduler.AskSkipper)
	for resource, skipped := range map[corev1.ResourceName]bool{"a.b/c": false, "a.b/d": false, "a.b/e": true} {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{resource: {}}
		if asks.SkipAsk(p) != skipped {
			t.Errorf("%s: skipped is not %t", resource, skipped)
		}
	}
	if fit := find[plugins.NodeResourcesFit](c.Profiles[0]); !slices.Equal(fit.Ignored, []string{"a.b/d"}) {
		t.Errorf("left to the extender: %v", fit.Ignored)
	}
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + "." + strings.Repeat("c", 60) + "." + strings.Repeat("d", 61)
	for name, want := range map[string]string{
		"a.b/c":              "",
		long + "/c":          "",
		long + "eeee/c":      `"` + long + `eeee/c": is an invalid extended resource name`, // quotas could not name it
		"kubernetes.io/c":    `"kubernetes.io/c": is an invalid extended resource name`,
		"my.kubernetes.io/c": `"my.kubernetes.io/c": is an invalid extended resource name`,
		"requests.a.b/c":     `"requests.a.b/c": is an invalid extended resource name`,
		"a/b/c":              `"a/b/c": a valid label key must consist of`,
	} {
		_, err := schedulerconfig.Open(write(t, header+"extenders: [{urlPrefix: http://a, managedResources: [{name: "+name+"}]}]\n"), schedulerconfig.Options{})
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "extenders[0].managedResources[0].name: Invalid value: "+want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %s and nothing more", name, err, want)
		}
	}
}

// TestConnectionsToExtenders: a file says how to know an extender, and how it knows the scheduler.
func TestConnectionsToExtenders(t *testing.T) {
	program := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "slow") {
			<-r.Context().Done()
			return
		}
		_, _ = fmt.Fprintf(w, `{"Error":"%d certificates"}`, len(r.TLS.PeerCertificates))
	}))
	program.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	program.Config.ErrorLog = log.New(io.Discard, "", 0)
	program.StartTLS()
	defer program.Close()
	key, err := x509.MarshalPKCS8PrivateKey(program.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data := map[string]string{}
	for kind, der := range map[string][]byte{"CERTIFICATE": program.Certificate().Raw, "PRIVATE KEY": key} {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		data[kind] = base64.StdEncoding.EncodeToString(text)
		if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(kind, " ", "-")), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill := strings.NewReplacer("$cert", data["CERTIFICATE"], "$key", data["PRIVATE KEY"], "$dir", dir)
	for text, want := range map[string]string{
		"bindVerb: b": "certificate signed by unknown authority",
		"bindVerb: b, tlsConfig: {insecure: true}":                                                                 "0 certificates",
		"bindVerb: b, enableHTTPS: true":                                                                           "0 certificates",
		"bindVerb: b, tlsConfig: {caData: $cert}":                                                                  "0 certificates",
		"bindVerb: b, tlsConfig: {caFile: $dir/CERTIFICATE}":                                                       "0 certificates",
		"bindVerb: b, enableHTTPS: true, tlsConfig: {caData: $cert}":                                               "0 certificates",
		"bindVerb: b, enableHTTPS: true, tlsConfig: {caData: $cert, serverName: other.invalid}":                    "not other.invalid",
		"bindVerb: b, enableHTTPS: true, tlsConfig: {certData: $cert, keyData: $key}":                              "1 certificates",
		"bindVerb: b, enableHTTPS: true, tlsConfig: {certFile: $dir/CERTIFICATE, keyFile: $dir/PRIVATE-KEY}":       "1 certificates",
		"bindVerb: b, enableHTTPS: true, tlsConfig: {certFile: /none, certData: $cert, keyFile: $dir/PRIVATE-KEY}": "1 certificates",
		"bindVerb: slow, enableHTTPS: true, httpTimeout: 1ms":                                                      "deadline exceeded",
	} {
		c := open(t, "extenders: [{urlPrefix: '"+program.URL+"', "+fill.Replace(text)+"}]\n")
		binder := c.Profiles[0].Plugins[len(c.Profiles[0].Plugins)-1].Plugin.(scheduler.Binder)
		if err := binder.Bind(t.Context(), &corev1.Pod{}, "n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
		binder.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	}
	for text, want := range map[string]string{
		"insecure: true, caData: $cert":              "tlsConfig.insecure: specifying a root certificates file with the insecure flag is not allowed",
		"keyData: $key":                              "tlsConfig: certFile, or certData, and keyFile, or keyData, go together",
		"certData: $cert, keyData: $cert":            "tlsConfig.certFile: tls: ",
		"certFile: /none, keyFile: $dir/PRIVATE-KEY": "tlsConfig.certFile: open /none",
		"certFile: $dir/CERTIFICATE, keyFile: /none": "tlsConfig.keyFile: open /none",
	} {
		_, err := schedulerconfig.Open(write(t, header+"extenders: [{urlPrefix: https://a, tlsConfig: {"+fill.Replace(text)+"}}]\n"), schedulerconfig.Options{})
		if err == nil || !strings.Contains(err.Error(), "extenders[0]."+want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
