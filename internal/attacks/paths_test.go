package attacks

import (
	"strings"
)

const secret = "/api/v1/namespaces/vault/secrets/canary"

// paths tries ways to write a path that authorization might read otherwise than what serves it.
func (w *world) paths() {
	if got := w.works("a secret", w.people["admin"], request(w.people["admin"], "GET", secret, "")); !strings.Contains(got.body, encodedCanary()) {
		w.t.Errorf("the administrator does not see the canary: %.300q", got.body)
	}
	w.works("a path for everybody", identity{}, request(identity{}, "GET", "/healthz", ""))
	for _, target := range spellings() {
		for _, who := range []string{"anonymous", "mallory", "reader"} {
			w.harmless(who+" GET "+target, w.people[who], request(w.people[who], "GET", target, ""))
		}
	}
}

// spellings are targets of requests for the secret.
func spellings() (all []string) {
	tail := strings.TrimPrefix(secret, "/")
	// Through paths that everybody, or everybody with a name, may get.
	for _, open := range []string{"/healthz", "/livez", "/readyz", "/version", "/api", "/apis", "/openapi/v3", "/openid/v1/jwks", "/.well-known/openid-configuration"} {
		for _, up := range []string{"/../", "/..%2f", "/%2e%2e/", "/%2e%2e%2f", "/.%2e/", "/..;/", "/..%5c", "/..%252f", "//../", "/./../"} {
			all = append(all, open+up+tail)
			if strings.Count(open, "/") > 1 {
				all = append(all, open+up+strings.TrimPrefix(up, "/")+tail)
			}
		}
		all = append(all, open+"?/../"+tail, open+"#/../"+tail, open+";"+secret, open+"%00"+secret, open+"\\..\\"+tail)
	}
	// Through what a reader may get or list in another namespace.
	for _, mine := range []string{"/api/v1/namespaces/pub/pods/mine", "/api/v1/namespaces/pub/configmaps"} {
		for _, up := range []string{"/../../../vault/secrets/canary", "/..%2f..%2f..%2fvault%2fsecrets%2fcanary", "/%2e%2e/%2e%2e/%2e%2e/vault/secrets/canary", "/../../../../../v1/namespaces/vault/secrets/canary"} {
			all = append(all, mine+up)
		}
	}
	all = append(all,
		// The path itself.
		"/"+secret, "//"+tail, "/./"+tail, secret+"/", secret+"//", secret+"/.", secret+"/../canary", secret+"?", secret+"#", secret+"%00", secret+"%20",
		"/API/v1/namespaces/vault/secrets/canary", "/api/V1/namespaces/vault/secrets/canary", "/api/v1/Namespaces/vault/secrets/canary",
		"/api/v1/namespaces/vault/Secrets/canary", "/api/v1/namespaces/vault/SECRETS/canary", "/api/v1/namespaces/vault/secret/canary",
		"/api/v1/namespaces/VAULT/secrets/canary", "/api/v1/namespaces/vault/secrets/Canary", "/%61pi/v1/namespaces/vault/secrets/canary",
		"/api/v1/namespaces/vault/%73ecrets/canary", "/api/v1/namespaces/%76ault/secrets/canary", "/api/v1/namespaces/vault/secrets/%63anary",
		"/api/v1/namespaces/vault%2fsecrets%2fcanary", "/api/v1/namespaces//vault/secrets/canary", "/api/v1//namespaces/vault/secrets/canary",
		"/api/v1/namespaces/pub%2f..%2fvault/secrets/canary", "/api/v1/namespaces/pub/../vault/secrets/canary", "/api/v1/namespaces/vault/secrets;a=b/canary",
		"/apis//v1/namespaces/vault/secrets/canary", "/apis/v1/namespaces/vault/secrets/canary", "/apis/core/v1/namespaces/vault/secrets/canary",
		// Other ways to the same objects.
		"/api/v1/secrets", "/api/v1/secrets/canary", "/api/v1/secrets?fieldSelector=metadata.name%3Dcanary", "/api/v1/secrets?fieldSelector=metadata.namespace%3Dvault",
		"/api/v1/namespaces/vault/secrets", "/api/v1/namespaces/vault/secrets?watch=true&timeoutSeconds=1", "/api/v1/watch/secrets?timeoutSeconds=1",
		"/api/v1/watch/namespaces/vault/secrets?timeoutSeconds=1", "/api/v1/watch/namespaces/vault/secrets/canary?timeoutSeconds=1",
		"/api/v1/namespaces/vault/secrets?fieldSelector=metadata.name%3Dcanary", "/api/v1/namespaces/vault/secrets?limit=1", "/api/v1/namespaces/pub/secrets/canary",
		"/api/v1/namespaces/vault/configmaps/map", "/api/v1/configmaps?limit=500", "/api/v1/namespaces/pub/configmaps/map/../../../vault/configmaps/map",
		"/api/v1/namespaces/vault/secrets/canary/status", "/api/v1/namespaces/vault/secrets/canary?pretty=true", "/api/v1/proxy/namespaces/vault/services/x",
		"/api/v1/namespaces/pub/pods/mine/proxy/../../../../vault/secrets/canary", "/api/v1/nodes/node-0/proxy/pods", "/api/v1/nodes/node-0/proxy/../../../secrets",
		"/logs/", "/metrics/../api/v1/secrets", "/debug/pprof/heap", "/debug/scheduler/decisions/pub/mine", "/apis/metrics.k8s.io/v1beta1/nodes",
		// Absolute and odd forms of the target.
		"https://cluster"+secret, "http://127.0.0.1"+secret, "https://cluster/healthz/.."+secret, "https://cluster@healthz"+secret, "*", "healthz/.."+secret, "?"+secret,
	)
	return all
}

// verbs tries to do with one right what takes another.
func (w *world) verbs() {
	const maps, pods = "/api/v1/namespaces/pub/configmaps", "/api/v1/namespaces/pub/pods"
	object := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}`
	reader, updater, creator := w.people["reader"], w.people["updater"], w.people["creator"]
	w.works("reader gets", reader, request(reader, "GET", pods+"/mine", ""))
	w.works("creator creates", creator, request(creator, "POST", maps+"?dryRun=All", object, "Content-Type: application/json"))

	for _, target := range []string{
		pods, pods + "?watch=true&timeoutSeconds=1", pods + "?watch=1&timeoutSeconds=1", pods + "?watch&timeoutSeconds=1", pods + "?watch=yes&timeoutSeconds=1", pods + "?fieldSelector=metadata.name%3Dmine",
		pods + "?fieldSelector=metadata.name%3Dmine&watch=true&timeoutSeconds=1", "/api/v1/watch/namespaces/pub/pods/mine?timeoutSeconds=1", "/api/v1/pods",
		maps + "?watch=true&timeoutSeconds=1", maps + "/map", "/api/v1/watch/namespaces/pub/configmaps?timeoutSeconds=1", "/api/v1/configmaps", "/api/v1/namespaces/vault/configmaps",
		"/api/v1/namespaces/vault/pods/mine", "/apis/apps/v1/namespaces/pub/deployments", "/api/v1/namespaces/pub", "/api/v1/namespaces", "/api/v1/nodes",
	} {
		w.refused("reader GET "+target, reader, request(reader, "GET", target, ""))
	}
	// Methods that say another one, and those that nobody knows.
	for _, header := range []string{"X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE"} {
		for _, method := range []string{"GET", "HEAD"} {
			w.harmless("reader "+method+" "+header, reader, request(reader, method, pods+"/mine", "", header))
		}
		w.refused("reader POST "+header, reader, request(reader, "POST", pods+"/mine", "{}", header))
	}
	for _, method := range []string{"get", "Get", "GETS", "LIST", "WATCH", "PROPFIND", "MOVE", "COPY", "TRACE", "CONNECT", "SEARCH", "QUERY", "LINK", "PURGE", "\tGET", "GET,DELETE"} {
		w.refused("mallory "+method, w.people["mallory"], request(w.people["mallory"], method, secret, ""))
	}
	for _, query := range []string{"?_method=DELETE", "?method=DELETE", "?verb=delete"} {
		w.harmless("reader GET "+query, reader, request(reader, "GET", pods+"/mine"+query, ""))
	}
	// Bodies that name something else than the path.
	for _, body := range []string{
		strings.Replace(object, `"new"`, `"new","namespace":"vault"`, 1), strings.Replace(object, "ConfigMap", "Secret", 1), strings.Replace(object, `"v1"`, `"apps/v1"`, 1),
		`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}]}`,
		strings.Replace(object, `"kind":"ConfigMap"`, `"kind":"ConfigMap","kind":"Secret"`, 1),
	} {
		w.refused("creator POST "+body, creator, request(creator, "POST", maps+"?fieldValidation=Strict", body, "Content-Type: application/json"))
	}
	for _, try := range [][3]string{
		{"PUT", maps + "/new", object}, {"PUT", maps + "/new?dryRun=All", object}, {"PATCH", maps + "/map", `{"data":{"k":"x"}}`}, {"POST", maps, object}, {"DELETE", maps, ""}, {"DELETE", maps + "?fieldSelector=metadata.name%3Dmap", ""},
		{"DELETE", "/api/v1/namespaces/vault/configmaps/map", ""}, {"DELETE", "/api/v1/configmaps", ""}, {"DELETE", "/api/v1/namespaces/pub", ""},
		{"PUT", "/api/v1/namespaces/vault/configmaps/map", strings.Replace(object, "new", "map", 1)},
	} {
		kind := "application/json"
		if try[0] == "PATCH" {
			kind = "application/merge-patch+json"
		}
		w.refused("updater "+try[0]+" "+try[1], updater, request(updater, try[0], try[1], try[2], "Content-Type: "+kind))
	}
	apply := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {k: x}\n"
	for _, who := range []string{"updater", "creator", "reader", "mallory"} { // applying takes patch, and create for what is not there
		w.refused(who+" applies", w.people[who], request(w.people[who], "PATCH", maps+"/map?fieldManager=m&force=true", apply, "Content-Type: application/apply-patch+yaml"))
	}
}

// subresources tries to get from an object to its subresources.
func (w *world) subresources() {
	reader, updater := w.people["reader"], w.people["updater"]
	pod, account := "/api/v1/namespaces/pub/pods/mine", "/api/v1/namespaces/pub/serviceaccounts/mine"
	for _, sub := range []string{
		pod + "/log", pod + "/exec?command=id&stdout=true", pod + "/attach?stdout=true", pod + "/portforward?ports=1", pod + "/proxy", pod + "/proxy/", pod + "/proxy/x", pod + "/status",
		pod + "/ephemeralcontainers", pod + "/resize", pod + "/eviction", pod + "/binding", pod + "/LOG", pod + "/log/", pod + "%2flog", pod + "/exec/..", pod + ":8080/proxy", "/api/v1/namespaces/pub/pods/https:mine:8080/proxy",
		account + "/token", account + "/status", "/apis/apps/v1/namespaces/pub/deployments/d/scale", "/apis/apps/v1/namespaces/pub/deployments/d/status",
		"/api/v1/namespaces/pub/replicationcontrollers/r/scale", "/api/v1/namespaces/pub/services/s/proxy", "/api/v1/namespaces/pub/services/s/status", "/api/v1/nodes/node-0/proxy/", "/api/v1/nodes/node-0/status",
	} {
		for _, who := range []identity{reader, updater} {
			w.refused("GET "+sub, who, request(who, "GET", sub, ""))
			w.refused("POST "+sub, who, request(who, "POST", sub, "{}", "Content-Type: application/json"))
		}
		w.refused("PUT "+sub, updater, request(updater, "PUT", sub, "{}", "Content-Type: application/json"))
		w.refused("PATCH "+sub, updater, request(updater, "PATCH", sub, "{}", "Content-Type: application/merge-patch+json"))
		w.refused("upgrade "+sub, reader, request(reader, "GET", sub, "", "Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io"))
		w.refused("WebSocket "+sub, reader, request(reader, "GET", sub, "", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
			"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol: v5.channel.k8s.io"))
	}
	for _, sub := range []string{"/api/v1/namespaces/pub/finalize", "/api/v1/namespaces/pub/status", "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval"} {
		w.refused("PUT "+sub, updater, request(updater, "PUT", sub, "{}", "Content-Type: application/json"))
	}
}
