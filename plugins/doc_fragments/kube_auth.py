# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""How modules reach the Kubernetes API: the documentation of what module_utils/_kube_options.py accepts."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - The path of a kubeconfig, or its content as a dictionary.
      - Without it, and without O(host) and its credentials, E(K8S_AUTH_KUBECONFIG) is used, then the files of
        E(KUBECONFIG), then C(~/.kube/config), then the service account of the pod that Ansible runs in.
      - Users with a certificate, a token, a password or a program (C(exec) of C(client.authentication.k8s.io/v1) and
        C(v1beta1)) are understood. Only what is secret in a dictionary is hidden from Ansible's output.
    type: raw
  context:
    description: The context of the kubeconfig, if not the current one. Also E(K8S_AUTH_CONTEXT).
    type: str
  host:
    description:
      - The address of the API server, for example V(https://10.0.0.1:6443). Also E(K8S_AUTH_HOST).
      - Beside a kubeconfig it replaces the address in it.
    type: str
  api_key:
    description:
      - A token. Also E(K8S_AUTH_API_KEY).
      - Any of O(api_key), O(client_cert) with O(client_key), and O(username) with O(password) replaces all credentials
        of the kubeconfig.
    type: str
  username:
    description: A name for HTTP basic authentication, for proxies that want it. Also E(K8S_AUTH_USERNAME).
    type: str
  password:
    description: The password for O(username). Also E(K8S_AUTH_PASSWORD).
    type: str
  validate_certs:
    description:
      - Whether the server's certificate is checked, which is so unless the kubeconfig says otherwise.
      - Also E(K8S_AUTH_VERIFY_SSL).
    type: bool
    aliases: [verify_ssl]
  ca_cert:
    description: A file with the certificate authority of the API server. Also E(K8S_AUTH_SSL_CA_CERT).
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description: A file with a client certificate. Also E(K8S_AUTH_CERT_FILE).
    type: path
    aliases: [cert_file]
  client_key:
    description: A file with the key of O(client_cert). Also E(K8S_AUTH_KEY_FILE).
    type: path
    aliases: [key_file]
  tls_server_name:
    description:
      - The name that the server's certificate must carry, if it is not the host of its address.
      - Also E(K8S_AUTH_TLS_SERVER_NAME).
    type: str
  proxy:
    description:
      - An HTTP proxy through which the API is reached, C(http://[user:password@]host:port).
      - Also E(K8S_AUTH_PROXY); then the kubeconfig's, then E(HTTPS_PROXY).
    type: str
  no_proxy:
    description:
      - Names, domains, addresses and networks, separated by commas, that need no proxy. Does not count for a proxy that
        the kubeconfig names.
      - Also E(K8S_AUTH_NO_PROXY), then E(NO_PROXY).
    type: str
  proxy_headers:
    description: What the proxy is told.
    type: dict
    suboptions:
      proxy_basic_auth:
        description: C(user:password) for the proxy. Also E(K8S_AUTH_PROXY_HEADERS_PROXY_BASIC_AUTH).
        type: str
  impersonate_user:
    description: A user to act as. Also E(K8S_AUTH_IMPERSONATE_USER).
    type: str
  impersonate_groups:
    description:
      - Groups to act as; needs O(impersonate_user).
      - Also E(K8S_AUTH_IMPERSONATE_GROUPS), separated by commas.
    type: list
    elements: str
"""
